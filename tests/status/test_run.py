"""What is said of a run in the moment in which one controller follows another."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from diel.journal.segment import SegmentWriter, read_run
from diel.paths import RunPaths
from diel.project.lease import Lease, read_lease, take
from diel.project.runs import create_run
from diel.project.submission import make_submission
from diel.states import RunState
from diel.status.run import standing

GONE = {"epoch": 1, "host": "elsewhere", "pid": 1, "started": 0.0}
"""A controller without a heartbeat for decades."""


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run that is resumed: its first controller is gone, and another one was asked for."""
    found = create_run(tmp_path / "runs", "w")
    line = json.dumps({"event": "controller", **GONE, "time": 0.0})
    found.controller_segment(1).write_text(f"{line}\n", encoding="utf-8")
    found.lease.write_text(json.dumps(GONE), encoding="utf-8")
    os.utime(found.lease, (0, 0))
    make_submission(found, "job")
    return found


def state(paths: RunPaths) -> RunState:
    return standing(paths, read_run(paths).history).state


def test_a_controller_that_comes_while_the_lease_is_read_is_no_interruption(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert state(paths) is RunState.PENDING
    taken: list[SegmentWriter] = []

    def read_and_take(paths: RunPaths) -> tuple[Lease, float] | None:
        before = read_lease(paths)
        taken.append(take(paths)[1])
        return before

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["diel.status.run"], "read_lease", read_and_take)
        assert state(paths) is RunState.PENDING
    assert state(paths) is RunState.RUNNING
    taken[0].close()


def test_a_controller_that_says_who_it_is_while_the_lease_is_read_is_no_interruption(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths.controller_segment(2).touch()

    def read_and_tell(paths: RunPaths) -> tuple[Lease, float] | None:
        before = read_lease(paths)
        line = json.dumps({"event": "controller", **GONE, "epoch": 2, "time": 0.0})
        paths.controller_segment(2).write_text(f"{line}\n", encoding="utf-8")
        return before

    monkeypatch.setattr(sys.modules["diel.status.run"], "read_lease", read_and_tell)
    assert state(paths) is RunState.PENDING


def test_a_controller_that_could_not_say_yet_who_it_is_is_no_interruption(paths: RunPaths) -> None:
    paths.controller_segment(2).touch()
    assert state(paths) is RunState.PENDING


def test_without_one_that_was_asked_for_a_run_is_interrupted(paths: RunPaths) -> None:
    for submission in paths.submissions.iterdir():
        submission.unlink()
    assert state(paths) is RunState.INTERRUPTED
