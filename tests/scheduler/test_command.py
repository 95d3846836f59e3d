"""Commands of a scheduler: time, environment, text."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from diel.scheduler import SchedulerBusy
from diel.scheduler.command import Answer
from diel.scheduler.command import ask as command
from tests.scheduler.edges import gone, wait


def ask(words: list[str], **more: Any) -> Answer:
    return command(words, os.environ, **more)


def test_what_a_command_says_is_told_with_its_exit_code() -> None:
    answer = ask(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (answer.code, answer.out, answer.err) == (3, "out\n", "err\n")


def test_nothing_waits_on_a_terminal() -> None:
    assert ask(["cat"]).out == ""


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert ask(["printf", "a\\377b"]).out == "a\ufffdb"


def test_the_folder_is_the_commands(tmp_path: Path) -> None:
    assert ask(["pwd"], folder=tmp_path).out == f"{tmp_path}\n"


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchedulerBusy, match="no such folder"):
        ask(["pwd"], folder=tmp_path / "none")


def test_a_command_that_hangs_ends_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(SchedulerBusy, match="`sh` has not answered after 0.2 s"):
        ask(["sh", "-c", f"trap '' TERM; sleep 300 & echo $! > '{pid}'; wait; wait"], timeout=0.2)
    assert time.monotonic() - begun < 5
    wait(lambda: gone(int(pid.read_text())))


def test_a_child_that_left_the_group_does_not_hold_the_answer_up(tmp_path: Path) -> None:
    """It keeps the pipes open, as a daemon that a wrapper script starts would."""
    begun = time.monotonic()
    with pytest.raises(SchedulerBusy):
        ask(["setsid", "--fork", "sh", "-c", f"echo $$ > '{tmp_path}/pid'; exec sleep 300"], timeout=0.3)
    assert time.monotonic() - begun < 5
    pid = tmp_path / "pid"
    wait(lambda: pid.exists() and pid.read_text().endswith("\n"))
    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("", encoding="utf-8")
    for words in (["no-such-program"], [str(tmp_path / "odd")], [str(tmp_path)]):
        with pytest.raises(SchedulerBusy, match=words[0]):
            ask(words)
