"""`diel report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.call import call
from tests.searched import MATERIALS, Searched, loop, search

Capture = pytest.CaptureFixture[str]


def test_a_loop_is_told_with_its_course(workspace: Path, capsys: Capture) -> None:
    loop(workspace, over=True)
    said = call(capsys, "report").out
    assert said.startswith("# w-1: succeeded\n")
    assert (
        "## Loop `round` until `check.error < 0.1`\n\nover after 3 rounds: `until` held in round 2." in said
    )
    assert "| round | check.error | holds |\n|---|---|---|\n| 0 | 0.8 | no |" in said
    assert "| 2 | 0.05 | yes |" in said
    assert "| check | analysis | 3 of 3 |" in said
    assert "| check.error | round | 3 of 3 | 0.8 |" in said
    assert "## Failures" not in said


def test_a_search_is_told_with_its_best_trial(workspace: Path, capsys: Capture) -> None:
    search(workspace)
    said = call(capsys, "report", "w-1").out
    assert "## Search `trial`: minimize f.loss (tpe)" in said
    assert "Best trial:\n\n| trial | f.loss | x |\n|---|---|---|\n| 1 | 0.25 | 0.5 |" in said


def test_several_objectives_are_told_with_their_front_for_each_point(
    workspace: Path, capsys: Capture
) -> None:
    run = Searched(workspace, MATERIALS).about("begin", 0, seed=1, at={"material": "Si"})
    for number, scores in enumerate([(1.0, 3.0), (2.0, 2.0), (3.0, 3.0)]):
        run.trial(number, 0.5, 0).score(number, *scores, context=(0,))
    said = call(capsys, "report").out
    assert "### material Si" in said
    assert (
        "| trial | f.loss | f.time | x |\n|---|---|---|---|\n| 0 | 1 | 3 | 0.5 |\n| 1 | 2 | 2 | 0.5 |\n\n"
        in said
    )


def test_failures_are_told_and_do_not_break_the_table(workspace: Path, capsys: Capture) -> None:
    search(workspace).failed("f", 4, "a | b\n<script>").end("failed")
    said = call(capsys, "report").out
    assert "| f/4 | app | a \\| b &lt;script> |" in said
    assert "`diel explain w-1 f/4` tells more." in said


def test_it_goes_to_a_file(workspace: Path, capsys: Capture) -> None:
    loop(workspace, over=True)
    said = call(capsys, "report", "--output", "report.md")
    assert (said.code, said.out) == (0, "report.md: the report of w-1\n")
    assert (workspace / "report.md").read_text().startswith("# w-1: succeeded")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--output", "absent/report.md"], 1, "cannot write absent/report.md: No such file or directory"),
        (["w-7"], 2, "no run 'w-7'"),
    ],
)
def test_what_cannot_be_is_told(
    workspace: Path, capsys: Capture, words: list[str], code: int, said: str
) -> None:
    loop(workspace, over=True)
    result = call(capsys, "report", *words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
