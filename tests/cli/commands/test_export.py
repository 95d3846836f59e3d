"""`diel export`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.call import call
from tests.handmade import Handmade

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(workspace: Path) -> Handmade:
    return Handmade(workspace, "stages: {a: {command: [x]}}").stage("a", 2).done("a", 0, n=1)


def test_a_run_is_written_and_what_was_left_out_is_said(run: Handmade, capsys: Capture) -> None:
    said = call(capsys, "export", "last", "--to", "wfformat", "shared/out")
    assert said.code == 0
    assert said.out.splitlines() == [
        "shared/out/wfformat.json: w-1",
        "  1 task, dependencies: 0",
        "  left out are tasks that have not run: 1 waiting (the run: interrupted)",
        '  next: wfcommons.Instance("shared/out/wfformat.json")',
    ]
    assert Path("shared/out/wfformat.json").is_file()
    assert call(capsys, "export", "out", "--to", "wfformat").code == 0, "the run may be left out"


def test_what_cannot_be_written_is_told_with_the_way_out(run: Handmade, capsys: Capture) -> None:
    Path("file").write_text("")
    for words, message in (
        (["last", "--to", "optuna", "out"], "w-1 has no trials for Optuna"),
        (
            ["last", "file", "--to", "wfformat"],
            "file is in the way: name another directory; nothing was written",
        ),
        (["last", "file/below", "--to", "wfformat"], "file is in the way"),
        (
            ["--to", "wfformat"],
            "expected a run and a directory to write to: diel export last --to wfformat DIR",
        ),
        (["v-7", "out", "--to", "wfformat"], "no run 'v-7'"),
    ):
        said = call(capsys, "export", *words)
        assert said.code == 2, words
        assert message in said.err
    assert not Path("out").exists()
    for folder in ("/proc/x", "/proc/x/y"):
        said = call(capsys, "export", folder, "--to", "wfformat")
        assert said.code == 1
        assert (
            f"cannot make or fill the directory {folder}: no such file or directory; name another" in said.err
        )
        assert ".part" not in said.err
