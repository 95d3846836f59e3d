"""A run as its files show it: its tasks, its state, and who drives it while one controller follows another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.base.paths import RunPaths
from diel.base.states import RunState, TaskState
from diel.observe.status.run import fold_status, read_status, standing
from diel.store.journal.segment import SegmentWriter
from diel.store.journal.snapshot import read_run
from diel.store.project.lease import Lease, read_lease, take
from diel.store.project.runs import create_run
from diel.store.project.submission import make_submission
from tests.handmade import HOST
from tests.written import Written

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
        patch.setattr(sys.modules["diel.observe.status.run"], "read_lease", read_and_take)
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

    monkeypatch.setattr(sys.modules["diel.observe.status.run"], "read_lease", read_and_tell)
    assert state(paths) is RunState.PENDING


def test_a_controller_that_could_not_say_yet_who_it_is_is_no_interruption(paths: RunPaths) -> None:
    paths.controller_segment(2).touch()
    assert state(paths) is RunState.PENDING


def test_a_controller_that_comes_once_the_journal_was_read_is_no_interruption(paths: RunPaths) -> None:
    with open(paths.controller_segment(1), "a", encoding="utf-8") as file:
        file.write(json.dumps({"event": "end", "state": "interrupted", "time": 1.0}) + "\n")
    reader = read_run(paths)
    take(paths)
    assert fold_status(paths, reader).state is RunState.RUNNING


def test_without_one_that_was_asked_for_a_run_is_interrupted(paths: RunPaths) -> None:
    for submission in paths.submissions.iterdir():
        submission.unlink()
    assert state(paths) is RunState.INTERRUPTED


# --- what is counted ------------------------------------------------------------------------------


def test_each_task_is_counted_in_its_state_from_all_segments(tmp_path: Path) -> None:
    run = Written(tmp_path, alive=True)
    run.write("queued", stage="a", bundle=1, tasks=[0, 1, 2]).work("start", 0).done(0).work("start", 1)
    run.write("cached", stage="a", index=3, run="w-0", key="0" * 32)
    status = read_status(run.paths)
    assert status.state is RunState.RUNNING
    counts = {state: n for state, n in status.stages[0].counts.items() if n}
    assert counts == {"queued": 1, "running": 1, "done": 1, "cached": 1}
    assert status.stages[0].good == 2
    assert status.stages[0].mean_seconds == 2.0
    assert status.uses == ("w-0",)


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_the_document_has_the_keys_that_scripts_rely_on(tmp_path: Path, with_snapshot: bool) -> None:
    run = Written(tmp_path, alive=True).done(0).failed(2, stderr_tail="oops\n")
    run.write("skipped", stage="b", tasks=[[0, 0]], reason="upstream", cause="a")
    if with_snapshot:
        run.snapshot()
    document = read_status(run.paths).document()
    assert document["run"] == "w-1"
    assert document["workflow"] == "w"
    assert document["state"] == "running"
    assert document["controller"]["alive"] is True
    assert document["controller"]["heartbeat_age_s"] < 60
    assert document["blocks"] == []
    a = document["stages"]["a"]
    assert a["kind"] == "simulation"
    wanted = {"total": 4, "done": 1, "cached": 0, "failed": 1, "skipped": 0, "cancelled": 0, "running": 0}
    assert {key: a[key] for key in wanted} == wanted
    assert {"queued", "waiting", "ready"} <= set(a)
    assert document["stages"]["b"]["skipped"] == 1
    (failure,) = document["failures"]
    assert failure["task"] == "a/2"
    assert failure["class"] == "app"
    assert failure["message"] == "exit code 3"
    assert failure["exit_code"] == 3
    assert failure["stderr_tail"] == "oops\n"


def test_a_run_whose_controller_is_gone_is_interrupted_and_has_nothing_under_way(tmp_path: Path) -> None:
    run = Written(tmp_path).write("queued", stage="a", bundle=1, tasks=[0, 1]).work("start", 0).quiet_for(30)
    status = read_status(run.paths)
    assert status.state is RunState.INTERRUPTED
    assert not status.alive
    assert status.stages[0][TaskState.WAITING] == 4
    assert status.ended is not None
    assert status.now - status.ended == pytest.approx(30, abs=5)  # when it was last heard of
    assert status.elapsed < 80


def test_a_controller_on_another_host_lives_by_its_heartbeat(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.lease(1, host=f"not-{HOST}", pid=1, started=1.0)
    assert read_status(run.paths).state is RunState.RUNNING
    run.quiet_for(600)
    assert read_status(run.paths).state is RunState.INTERRUPTED


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "interrupted"])
def test_a_run_that_ended_keeps_its_state_whatever_became_of_its_controller(
    tmp_path: Path, state: str
) -> None:
    for alive in (True, False):
        run = Written(tmp_path / str(alive), alive=alive).end(state)
        status = read_status(run.paths)
        assert status.state == state
        assert not status.alive


def test_a_run_that_no_controller_has_taken_yet_is_pending(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.paths.lease.unlink()
    for segment in run.paths.journal.iterdir():
        segment.unlink()
    assert read_status(run.paths).state is RunState.PENDING


def test_a_stage_whose_tasks_are_not_known_yet_is_there_without_a_total(tmp_path: Path) -> None:
    status = read_status(Written(tmp_path, alive=True).paths)
    assert [stage.name for stage in status.stages] == ["a", "b", "late"]
    assert status.stages[2].total is None
    assert status.total is None


def test_a_stage_that_never_got_tasks_says_why(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.write("stage", stage="late", kind="analysis", total=0, void="axis 'x': a/0 made no 'x'").end("failed")
    (late,) = [stage for stage in read_status(run.paths).stages if stage.name == "late"]
    assert late.total == 0
    assert late.void == "axis 'x': a/0 made no 'x'"
    assert read_status(run.paths).total == 5


def test_a_reader_sees_what_was_appended_since(tmp_path: Path) -> None:
    run = Written(tmp_path, alive=True).done(0)
    reader = read_run(run.paths)
    run.done(1)
    assert read_status(run.paths, reader).stages[0].good == 2


def test_a_journal_of_another_form_is_an_error_that_names_the_run(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.write("stage", name="written by something else")
    with pytest.raises(UsageError, match="w-1"):
        read_status(run.paths)


def test_nothing_heavy_is_imported(root: Path) -> None:
    heavy = {"parsl", "pydantic", "rich", "yaml", "numpy"}
    code = f"import sys, diel.observe.status; print(*sorted(set(sys.modules) & {heavy!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
