"""A controller that nobody watches: what a signal does to it, and its successor in a job of its own."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.controller.__main__ import Signals, Successor
from diel.controller.controller import Controller
from diel.controller.start import create, take_over
from diel.planning.plan import prepare
from diel.site.scheduler.slurm import Slurm
from diel.store.journal.history import History
from diel.store.project.submission import make_submission, newest_submission
from tests.pretend import Pretend
from tests.record import as_record
from tests.throwaway import wait_for

SITE = """
name: cluster
scheduler: slurm
controller: {home: job, walltime: 1h}
pools: {cpu: {cores: 8, walltime: 1h}}
"""
FAILED = as_record({"class": "app", "message": "exit code 3"})


def test_a_signal_ends_the_run_once_and_a_second_one_would_leave_at_once() -> None:
    watch = Signals(None)
    watch(History())
    watch.interrupt(signal.SIGTERM, None)
    with pytest.raises(KeyboardInterrupt):
        watch(History())
    watch(History())


def test_what_runs_in_blocks_is_let_go_where_the_next_controller_can_have_it() -> None:
    calls: list[None] = []
    watch = Signals(lambda: calls.append(None))
    watch.interrupt(signal.SIGTERM, None)
    for _ in range(2):
        watch(History())
    assert calls == [None]


def test_each_failure_goes_to_the_log_once(capsys: pytest.CaptureFixture[str]) -> None:
    watch, history = Signals(None), History()
    history.failures["s", 3] = FAILED
    for _ in range(2):
        watch(history)
    assert capsys.readouterr().out.count("s/3 failed: exit code 3") == 1


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    found = Pretend()
    for module in ("controller.__main__", "controller.home"):
        monkeypatch.setattr(f"diel.{module}.scheduler_named", lambda name: found)
    return found


@pytest.fixture
def controller(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    monkeypatch.setattr(Slurm, "lacking", lambda self: ())
    (workspace / "schedulers").mkdir()
    (workspace / "schedulers/cluster.yaml").write_text(SITE)
    (workspace / "w.yaml").write_text("diel: 1\nname: w\nstages: {s: {command: [x]}}\n")
    return take_over(create(prepare(workspace / "w.yaml", site="cluster"), workspace / "runs"))


def asked(controller: Controller, in_seconds: float = 0.0) -> Successor:
    now = time.monotonic()
    wanted = make_submission(controller.paths, "job")
    made = Successor(controller, wanted, now + in_seconds, now + 60)
    made.look()
    return made


def job_of(paths: RunPaths) -> str | None:
    found = newest_submission(paths)
    return None if found is None else found.job


@pytest.mark.parametrize("needed", [True, False])
def test_a_successor_is_queued_in_time_and_taken_back_where_the_run_has_ended(
    controller: Controller, scheduler: Pretend, needed: bool
) -> None:
    successor = asked(controller)
    wait_for(lambda: job_of(controller.paths) == "100")
    successor.settle(needed=needed)
    assert scheduler.cancelled == ([] if needed else ["100"])
    assert job_of(controller.paths) == ("100" if needed else None)


def test_no_successor_is_asked_for_before_it_is_time(controller: Controller, scheduler: Pretend) -> None:
    asked(controller, in_seconds=60).settle(needed=True)
    assert scheduler.jobs == {}


def test_a_successor_that_cannot_be_had_is_told_and_withdrawn(
    controller: Controller, scheduler: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler.refuses = "#name"
    asked(controller).settle(needed=True)
    assert "its next controller cannot start, `diel resume` continues it: " in capsys.readouterr().out
    assert job_of(controller.paths) is None
