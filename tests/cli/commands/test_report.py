"""`diel report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.call import call
from tests.searched import loop

Capture = pytest.CaptureFixture[str]


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
