"""What becomes of attempts whose worker was given up for lost, and that write after all."""

from __future__ import annotations

import json
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from diel.backends.blocks.dispatcher import Dispatcher, InFlight, SentBundle
from diel.backends.blocks.local import ThisMachine
from diel.base.errors import WorkerLost
from diel.base.states import TaskState
from diel.controller.intake import Intake, escalated, exhausted
from diel.store.journal.segment import SegmentWriter
from diel.store.project.requests import fenced
from diel.workflow.models import Resources
from diel.workflow.models.policy import Rule
from tests.controller.bench import Bench
from tests.record import as_record
from tests.worker.bench import request

FLOW = """
    axes:
      i: {range: 3}
    stages:
      work: {over: [i], command: [./work], outputs: {x: {value: int}}}
      after: {over: [i], command: [echo, "${{ work.x }}"]}
"""


class Late:
    """A run in which task 0 was handed out, and its worker was given up: the task waits to go out again."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder, FLOW)
        plan, ledger = self.bench.plan, self.bench.ledger
        self.dispatcher = Dispatcher(plan, ledger, 1, ThisMachine(plan, ledger))
        self.in_flight = self.dispatcher.in_flight
        self.intake = Intake(self.bench.stages, ledger, self.dispatcher, lambda *_: True)
        self.worker = SegmentWriter(self.bench.paths.journal / "worker-0001-n1-7-1.jsonl")
        self.bench.ledger.append({"event": "queued", "stage": "work", "bundle": 1, "tasks": [0]})
        lost = {
            "event": "fail",
            "stage": "work",
            "index": 0,
            "attempt": 1,
            "class": "node",
            "message": "lost",
        }
        self.bench.ledger.append(as_record(lost))

    def writes(self, event: str, **more: Any) -> None:
        self.worker.append(
            as_record({"event": event, "stage": "work", "index": 0, "attempt": 1, "time": 1.0, **more})
        )
        self.intake.read_news()

    def state(self) -> TaskState:
        return self.bench.stages.runs["work"].history.state(0)


@pytest.fixture
def late(tmp_path: Path) -> Late:
    return Late(tmp_path)


def test_a_result_that_comes_late_counts_and_what_waits_for_it_goes_on(late: Late) -> None:
    late.writes("done", seconds=1.0, values={"x": 5}, artifacts={})
    assert late.state() is TaskState.DONE
    assert late.bench.stages.runs["work"].ended == 1
    assert late.bench.resolve("after").command == ("echo", "5")


@pytest.mark.parametrize("event", ["start", "fail"])
def test_what_else_comes_late_leaves_the_task_to_go_out_again(late: Late, event: str) -> None:
    late.writes(event, **({"class": "app", "message": "no"} if event == "fail" else {}))
    assert late.state() is TaskState.WAITING
    assert late.bench.stages.runs["work"].ended == 0


def test_the_result_of_an_attempt_that_was_given_up_does_not_count(late: Late) -> None:
    """Whether its task waits, or is out as another attempt."""
    late.bench.ledger.append({"event": "fenced", "stage": "work", "tasks": [[0, 1]]})
    late.writes("done", seconds=1.0, values={"x": 5}, artifacts={})
    assert late.state() is TaskState.WAITING
    out = late.in_flight[("work", 0)] = InFlight(2, 2)
    late.bench.ledger.append({"event": "queued", "stage": "work", "bundle": 2, "tasks": [0], "attempts": [2]})
    late.writes("done", seconds=1.0, values={"x": 6}, artifacts={})
    assert late.in_flight == {("work", 0): out}
    late.worker.append(
        {"event": "start", "stage": "work", "index": 0, "attempt": 2, "time": 1.0, "bundle": 2}
    )
    late.writes("done", attempt=2, seconds=1.0, values={"x": 7}, artifacts={})
    assert late.state() is TaskState.DONE
    assert late.bench.resolve("after").command == ("echo", "7")


def test_a_result_that_comes_late_beats_the_attempt_that_is_out(late: Late) -> None:
    late.in_flight[("work", 0)] = InFlight(2, 2)
    late.bench.ledger.append({"event": "queued", "stage": "work", "bundle": 2, "tasks": [0], "attempts": [2]})
    late.writes("done", seconds=1.0, values={"x": 5}, artifacts={})
    assert late.state() is TaskState.DONE
    assert late.in_flight == {}


def test_news_of_a_bundle_that_was_lost_before_is_no_news_of_those_who_run_its_tasks_now(late: Late) -> None:
    """Parsl may tell seconds after the scheduler did that a block is gone; another one has its tasks by then."""
    ledger, work = late.bench.ledger, late.bench.stages.runs["work"]
    late.dispatcher.sent[1] = SentBundle(work, (request(0),), time.monotonic(), 1)
    late.in_flight[("work", 0)] = InFlight(2, 2)
    ledger.append({"event": "queued", "stage": "work", "bundle": 2, "tasks": [0], "attempts": [2]})
    late.worker.append(as_record({"event": "worker", "host": "n1", "pid": 7, "block": "1-1", "node": "n1"}))
    late.worker.append(
        {"event": "start", "stage": "work", "index": 0, "attempt": 2, "time": 1.0, "bundle": 2}
    )
    lost: Future[bytes] = Future()
    lost.set_exception(RuntimeError("the manager is gone"))
    late.intake.take(1, lost)
    assert work.history.under_way[0].state is TaskState.RUNNING
    assert late.in_flight == {("work", 0): InFlight(2, 2)}
    assert not fenced(late.bench.paths, "1-1"), "a good worker would end instead of committing its task"


@pytest.mark.parametrize(("killed", "kind"), [(True, "oom"), (False, "node")])
def test_only_a_worker_that_was_killed_may_have_died_for_want_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool, kind: str
) -> None:
    counter = tmp_path / "vmstat"
    counter.write_text("oom_kill 0\n")
    monkeypatch.setattr("diel.worker.attempt.reaper._VMSTAT", counter)
    late = Late(tmp_path)
    late.dispatcher.sent[1] = SentBundle(late.bench.stages.runs["work"], (request(0),), time.monotonic(), 1)
    late.in_flight[("work", 0)] = InFlight(1, 2)
    late.bench.ledger.append({"event": "queued", "stage": "work", "bundle": 1, "tasks": [0], "attempts": [2]})
    late.writes("start", attempt=2, bundle=1)
    counter.write_text("oom_kill 1\n")
    lost: Future[bytes] = Future()
    lost.set_exception(WorkerLost("worker process 7 ended", killed=killed))
    late.intake.take(1, lost)
    lines = late.bench.paths.controller_segment(1).read_text(encoding="utf-8").splitlines()
    fails = [record for record in map(json.loads, lines) if record["event"] == "fail"]
    assert [record["class"] for record in fails] == ["node", kind]


GIB = 2**30
TWICE = Rule(2, 0.0, shared=False, memory=2.0, walltime=1.5)


def test_memory_and_walltime_grow_by_their_factors() -> None:
    before = Resources.model_validate({"memory": f"{GIB}B", "walltime": "60s"})
    after = escalated("s", before, TWICE, lambda *_: True)
    assert (after.memory, after.walltime) == (2 * GIB, 90.0)
    assert exhausted(before, after, TWICE) == ""


def test_growth_ends_at_what_the_largest_pool_has() -> None:
    def fits(_: str, wanted: Resources) -> bool:
        return (wanted.memory or 0) <= 3 * GIB and (wanted.walltime or 0) <= 100

    first = escalated(
        "s", Resources.model_validate({"memory": f"{2 * GIB}B", "walltime": "90s"}), TWICE, fits
    )
    assert 3 * GIB - 2**20 <= (first.memory or 0) <= 3 * GIB
    assert 99 <= (first.walltime or 0) <= 100
    second = escalated("s", first, TWICE, fits)
    assert second == first
    assert exhausted(first, second, TWICE).startswith(
        "no pool gives a task more than 3.0 GiB of memory or 1m"
    )


def test_nothing_grows_that_is_not_given() -> None:
    before = Resources()
    after = escalated("s", before, TWICE, lambda *_: True)
    assert after == before
    assert exhausted(before, after, TWICE) == ""
