"""An output that is read is one that its stage makes, as far as that can be known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, the_problem

WORKFLOW = """
axes: {{a: {{values: [1, 2]}}, open: {{from: maker.points}}}}
stages:
  maker: {{command: 'make > $DIEL_RESULT'}}
  up: {{{up}}}
  down: {{command: [echo, "${{{{ up.{output} }}}}"]}}
"""
DECLARED = "command: [run], outputs: {table: t.csv, energy: {value: float}}"
MODULE = "module: m:melt, params: {temperature: 1.0}"


@pytest.mark.parametrize(
    ("up", "output"),
    [
        (DECLARED, "table"),
        (DECLARED, "energy"),
        (f"{DECLARED}, over: [a]", "a"),
        (f"{DECLARED}, over: [open]", "whatever"),
        (MODULE, "energy"),
        ("module: m:free", "whatever"),
        ("command: 'echo 1 > $DIEL_RESULT'", "whatever"),
        ("command: [python, work.py]", "whatever"),
        ("command: [./work]", "whatever"),
    ],
)
def test_what_is_made_or_may_be_made_can_be_read(folder: Path, up: str, output: str) -> None:
    checked(folder, WORKFLOW.format(up=up, output=output))


@pytest.mark.parametrize(
    ("up", "output", "hint"),
    [
        (DECLARED, "tabel", "did you mean 'table'?"),
        (DECLARED, "x", "it has: table, energy; or declare outputs: {x: PATH}"),
        (f"{DECLARED}, over: [open]", "enrgy", "did you mean 'energy'?"),
        (MODULE, "enery", "did you mean 'energy'?"),
        ("command: [run]", "x", "declare outputs: {x: PATH}"),
    ],
)
def test_what_is_not_made_is_told_with_what_is(folder: Path, up: str, output: str, hint: str) -> None:
    problem = the_problem(folder, WORKFLOW.format(up=up, output=output))
    assert problem.message == f"'up' makes no output '{output}'"
    assert hint in problem.hint
    assert problem.key == "stages.down.command.1"
