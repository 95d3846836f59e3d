"""Every name that an expression reads is there, or is told with the nearest one and its column."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, problems, the_problem

BASE = """
hyperparameters: {{rate: {{type: float, default: 0.1}}}}
axes:
  a: {{values: [1, 2]}}
  pair: {{zip: {{x: [1, 2], y: [3, 4]}}}}
  made: {{from: up.points}}
stages:
  up: {{command: 'make > $DIEL_RESULT'}}
  s:
    over: [{over}]
    files: {{script: w.txt}}
    env: {{E: "1"}}
    outputs: {{out: out.csv}}
    command: ["${{{{ {text} }}}}"]
"""


@pytest.fixture(autouse=True)
def script(folder: Path) -> None:
    (folder / "w.txt").touch()


@pytest.mark.parametrize(
    ("over", "text"),
    [
        ("a", "a + 1"),
        ("pair", "x + y"),
        ("pair", "pair.x"),
        ("", "hp.rate"),
        ("", "files.script"),
        ("", "outputs.out"),
        ("", "up.whatever"),
        ("", "task.index"),
        ("", "task.id"),
        ("", "task.attempt"),
        ("", "run.dir"),
        ("", "run.id"),
        ("made", "anything"),
        ("made", "made"),
        ("", "max(1, 2)"),
    ],
)
def test_names_that_are_there_are_read(folder: Path, over: str, text: str) -> None:
    checked(folder, BASE.format(over=over, text=text))


@pytest.mark.parametrize(
    ("over", "text", "message", "hint"),
    [
        ("a", "b", "no name 'b' here", "there are: a"),
        ("", "a", "'a' is an axis, and 's' does not run over it", ""),
        ("pair", "pair", "'pair' is not a value itself", "write which one: pair.x"),
        ("pair", "pair.z", "no 'z' in 'pair'", "'pair' has: x, y"),
        ("", "hp.rat", "no 'rat' in 'hp'", "did you mean 'rate'?"),
        ("", "hp", "'hp' is not a value itself", "hp.rate"),
        ("", "params.n", "no 'n' in 'params'", "'params' is empty here"),
        ("", "up", "'up' is not a value itself", "up.OUTPUT"),
        ("", "task.number", "no 'number' in 'task'", ""),
        (
            "made",
            "p",
            "no name 'p' here",
            "for a column of 'made' write ${{ made.p }}, or `columns: [p]` at the axis; ",
        ),
        ("made", "hp.rat", "no 'rat' in 'hp'", "did you mean 'rate'?"),
        ("", "1 +", "", ""),
        ("", "().__class__", "", ""),
    ],
)
def test_a_name_that_is_not_there_is_told(
    folder: Path, over: str, text: str, message: str, hint: str
) -> None:
    problem = problems(folder, BASE.format(over=over, text=text))[0]
    assert message in problem.message
    assert hint in problem.hint
    assert (problem.key, problem.line) == ("stages.s.command.0", 16)
    assert problem.column > 15, "it points into the text"


def test_a_parameter_cannot_read_its_neighbours(folder: Path) -> None:
    text = 'stages:\n  s: {command: [echo], params: {a: 1, b: "${{ params.a }}"}}\n'
    assert the_problem(folder, text).message == "a parameter cannot read other parameters"


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("env: {E: '${{ nowhere }}'}", "stages.s.env.E"),
        ("params: {p: {deep: [1, '${{ nowhere }}']}}", "stages.s.params.p.deep.1"),
        ("outputs: {o: '${{ nowhere }}.csv'}", "stages.s.outputs.o"),
        ("when: nowhere > 1", "stages.s.when"),
    ],
)
def test_every_place_that_holds_an_expression_is_looked_at(folder: Path, place: str, line: str) -> None:
    problem = the_problem(folder, f"stages:\n  s:\n    command: [echo]\n    {place}\n")
    assert (problem.message, problem.key) == ("no name 'nowhere' here", line)


def test_an_expression_that_can_only_fail_is_told_before_it_runs(folder: Path) -> None:
    problem = the_problem(folder, "stages:\n  s: {command: [echo, '${{ 1 / 0 }}']}\n")
    assert problem.key == "stages.s.command.1"
