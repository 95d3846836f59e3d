"""The command line's last line of defence: what is said where nothing below had words for it."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import diel
from diel.cli import main
from diel.cli.main import COMMANDS, cli
from diel.site.find import find_site
from tests.cli.call import call
from tests.handmade import Handmade
from tests.record import as_record


def run_with(error: Exception, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cli, "main", broken)
    with pytest.raises(SystemExit) as exit_:
        main([*words, "list"])
    return exit_.value.code


def test_a_full_disk_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "runs/a-1/snapshot.part")
    assert run_with(full, monkeypatch) == 1
    said = capsys.readouterr().err
    assert "No space left on device (runs/a-1/snapshot.part)" in said
    assert "diel resume" in said
    assert "Traceback" not in said


def test_a_file_that_is_in_the_way_is_told_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = IsADirectoryError(errno.EISDIR, "Is a directory", "w-1/lease.part", None, "w-1/lease.json")
    assert run_with(there, monkeypatch) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: Is a directory: w-1/lease.part -> w-1/lease.json\n")
    assert "should not" not in said


def test_an_error_that_nobody_expected_shows_no_traceback_but_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(ZeroDivisionError("oh"), monkeypatch) == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in said
    assert "Traceback" not in said
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "list"])


@pytest.mark.parametrize("words", [["list"], ["run", "x.yaml"], ["submit", "x.yaml"], ["status"], ["init"]])
def test_a_current_directory_that_is_gone_is_told_as_that(
    workspace: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    gone = workspace / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    said = call(capsys, *words)
    assert (said.code, "current directory is no longer there" in said.err) == (2, True)


@pytest.mark.parametrize(
    "words", [("explain",), ("results",), ("graph",), ("params",), ("resume",)], ids=" ".join
)
def test_a_run_whose_workflow_is_no_text_any_more_is_told_as_that(
    workspace: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    written = Handmade(workspace, "stages: {a: {command: [x]}}").end("failed")
    written.paths.site.write_text(find_site(None, workspace).model_dump_json())
    written.paths.workflow.write_bytes(b"\xff\xfe")
    said = call(capsys, *words)
    assert said.code in (1, 2)
    why = "w-1: its workflow cannot be read: 'utf-8' codec can't decode byte 0xff"
    assert why in said.err
    assert why in call(capsys, "report").out, "beside what can be read, as on the page"


def test_a_run_with_a_journal_of_another_form_is_not_resumed(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = Handmade(workspace, "stages: {a: {command: [x]}}")
    written.worker.append({"event": "done", "state": 3})
    said = call(capsys, "resume")
    assert said.code == 2
    assert "the journal of w-1 is not one that this diel can read: " in said.err
    assert f"{written.worker.path}:1: a record of `done`: `stage` is missing: expected a text" in said.err


@pytest.mark.parametrize(
    ("record", "flaw"),
    [
        ({"event": "done", "stage": "a", "index": "7"}, "`index` is '7': expected a task's index"),
        ({"event": "done", "stage": "a", "index": 10**15}, "expected a task's index"),
        ({"event": "queued", "stage": "a", "tasks": 3, "time": 1}, "`tasks` is 3: expected a list of tasks"),
        (
            {"event": "queued", "stage": "a", "tasks": [0, 1], "attempts": [1], "time": 1},
            "2 tasks and 1 attempts",
        ),
        ({"event": "end", "state": "tired", "time": 1.0}, "`state` is 'tired': expected a state of a run"),
        ({"event": 3, "time": 1.0}, "`event` is 3: expected a text"),
        ({"event": None, "time": 1.0}, "`event` is None: expected a text"),
        ({"event": "failed", "stage": "a", "tasks": []}, "`tasks` is []: expected pairs of tasks"),
        (
            {"event": "judged", "axis": "t", "context": [], "number": 4, "state": "complete", "time": 1},
            "trial 4",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_damaged_record_is_told_with_its_file_and_line(
    workspace: Path, capsys: pytest.CaptureFixture[str], record: dict[str, Any], flaw: str
) -> None:
    written = Handmade(workspace, "stages: {a: {command: [x]}}")
    written.worker.append({"event": "future"}, as_record(record))
    shown, refused = call(capsys, "status"), call(capsys, "resume")
    assert (shown.code, refused.code) == (0, 2)
    for said in (shown.out, refused.err):
        assert f"{written.worker.path}:2: " in said
        assert flaw in said


def test_a_mistake_of_diels_is_told_as_one_and_not_as_a_damaged_journal(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Handmade(workspace, "stages: {a: {command: [x]}}").worker.append(
        {"event": "done", "stage": "a", "index": 0, "attempt": 1, "seconds": 1.0, "key": "", "time": 1.0}
    )

    def fail(*_: object) -> None:
        raise KeyError("stages")

    monkeypatch.setattr("diel.store.journal.history.History._commit", fail)
    said = call(capsys, "status", "w-1")
    assert said.code == 1
    assert "journal" not in said.err
    assert said.err.startswith("diel failed in a way that it should not: KeyError: 'stages'\n")
    assert "report it with what `diel --debug status w-1` prints" in said.err
    assert f"diel {diel.__version__}, Python 3." in said.err
    assert "Traceback" not in said.err


def test_the_help_lists_every_command_once_in_some_section(capsys: pytest.CaptureFixture[str]) -> None:
    listed = re.findall(r"^  (\w+) +\S", call(capsys, "--help").out, re.MULTILINE)
    assert sorted(name for name in listed if name in COMMANDS) == sorted(COMMANDS)


def test_the_help_and_the_version_load_no_command() -> None:
    code = "import sys, diel.cli\ntry: diel.cli.main()\nfinally: print([m for m in sys.modules if '.commands' in m])"
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", code, option], capture_output=True, text=True, check=True
        )
        assert done.stdout.endswith("[]\n"), done.stdout


def test_the_help_of_a_command_opens_with_its_line_in_the_list_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        shown = call(capsys, "list", "--help").out
        assert shown.count(COMMANDS["list"]) == 1
        assert shown.index(COMMANDS["list"]) < shown.index("`last` means")
