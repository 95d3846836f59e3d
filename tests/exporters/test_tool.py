"""What is written gets into a directory whole or not at all, beside what is there; nothing of that is changed."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from diel.base.errors import DielError, UsageError
from diel.export import TOOLS, take_out
from diel.observe.results import RunReader
from tests.handmade import Handmade


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    return Handmade(tmp_path, "stages: {a: {command: [x]}}").stage("a", 1).done("a", 0, n=1)


def test_a_directory_that_is_there_is_completed_and_a_file_in_it_is_never_replaced(
    run: Handmade, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "mine").write_text("mine")
    take_out(RunReader(run.paths), "wfformat", shared)
    assert {path.name for path in shared.iterdir()} == {"mine", "wfformat.json"}
    before = (shared / "wfformat.json").read_bytes()
    with pytest.raises(UsageError, match="wfformat.json is there already, and stays as it is: name another"):
        take_out(RunReader(run.paths), "wfformat", shared)
    assert (shared / "wfformat.json").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "shared"}


def test_what_is_interrupted_leaves_nothing(
    run: Handmade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(one: RunReader, into: Path, target: Path) -> list[str]:
        (into / "wfformat.json").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr("diel.export.wfformat.write", stopped)
    with pytest.raises(KeyboardInterrupt):
        take_out(RunReader(run.paths), "wfformat", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


def test_a_full_disk_is_told_as_one_whatever_a_library_makes_of_it(
    run: Handmade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(one: RunReader, into: Path, target: Path) -> list[str]:
        try:
            raise sqlite3.OperationalError("database or disk is full")
        except sqlite3.OperationalError as error:
            raise RuntimeError("a library's own") from error

    monkeypatch.setattr("diel.export.wfformat.write", filled)
    with pytest.raises(DielError, match=f"no room is left in {tmp_path}/out: make some; nothing was written"):
        take_out(RunReader(run.paths), "wfformat", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.items() if tool.extra])
def test_a_missing_library_is_told_with_what_installs_it(
    run: Handmade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    for name in [name for name in sys.modules if name.startswith((f"{tool}.", "diel.export."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, tool, None)
    extra = TOOLS[tool].extra
    with pytest.raises(UsageError, match=rf"--to {tool} needs {tool}\S*: pip install 'diel\[{extra}\]'"):
        take_out(RunReader(run.paths), tool, tmp_path / "out")
