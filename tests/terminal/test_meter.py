"""How far a run is, measured from inside its controller."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diel.check import check
from diel.journal.history import History
from diel.plan import Plan, make_plan
from diel.site import Site
from diel.states import TaskState
from diel.terminal.meter import Meter, blocks_text
from tests.record import as_record


class Clock:
    """Time that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Run:
    """The side of a controller that is watched: stages of 100 one-core tasks on 4 cores."""

    def __init__(self, *names: str, cores: int = 1, unknown: tuple[str, ...] = ()) -> None:
        self.history = History()
        runs: dict[str, Any] = {}
        plans: dict[str, Any] = {}
        for name in names:
            stage = self.history.stage(name)
            known = name not in unknown
            stage.total = 100 if known else 0
            domain = object() if known else None
            runs[name] = SimpleNamespace(
                name=name, domain=domain, void=False, size=100, ended=0, complete=False, adaptive=()
            )
            plans[name] = SimpleNamespace(tasks=100 if known else None, cores=cores)
        graph = SimpleNamespace(order=names)
        plan = SimpleNamespace(graph=graph, stages=plans, capacity=4, executor="threads")
        self.stages = runs
        self.controller: Any = SimpleNamespace(plan=plan, stages=runs, sent={})

    def finish(self, name: str, count: int, seconds: float) -> None:
        """Ends the next tasks of a stage, each after so many seconds of run time."""
        stage, run = self.history.stage(name), self.stages[name]
        for index in range(run.ended, run.ended + count):
            stage.set(index, TaskState.DONE)
        run.ended += count
        stage.timed += count
        stage.seconds += count * seconds


def test_time_left_is_scaled_by_how_fast_it_really_went(clock: Clock) -> None:
    run = Run("a")
    measured = Meter(run.controller)
    measured.begin(run.history)
    assert measured.time_left(run.history) is None
    clock.now += 20
    run.finish("a", 40, 1.0)  # 40 tasks of a second in 20 seconds: two at a time
    assert measured.time_left(run.history) == pytest.approx((30.0, ""))


def test_a_stage_that_has_not_begun_is_taken_to_be_like_the_others(clock: Clock) -> None:
    run = Run("a", "b")
    measured = Meter(run.controller)
    measured.begin(run.history)
    clock.now += 10
    run.finish("a", 100, 1.0)
    assert measured.time_left(run.history) == pytest.approx((10.0, "~"))


def test_a_stage_of_unknown_size_makes_it_a_lower_bound(clock: Clock) -> None:
    run = Run("a", "b", unknown=("b",))
    measured = Meter(run.controller)
    measured.begin(run.history)
    clock.now += 10
    run.finish("a", 50, 1.0)
    assert measured.time_left(run.history) == pytest.approx((10.0, "≥"))


def test_a_stage_over_a_loop_that_may_end_early_makes_it_an_upper_bound(clock: Clock) -> None:
    run = Run("a")
    run.stages["a"].adaptive = (SimpleNamespace(may_end_early=True),)
    measured = Meter(run.controller)
    measured.begin(run.history)
    clock.now += 10
    run.finish("a", 50, 1.0)
    assert measured.time_left(run.history) == pytest.approx((10.0, "≤"))


def test_tasks_at_points_that_never_came_are_not_counted(clock: Clock) -> None:
    run = Run("a")
    run.finish("a", 30, 1.0)
    run.history.apply({"event": "skipped", "stage": "a", "tasks": [[30, 98]], "reason": "axis", "time": 1.0})
    (row,) = Meter(run.controller).rows(run.history)
    assert (row.good, row.total, row.skipped) == (30, 31, 0)


def test_what_an_earlier_controller_did_says_nothing_of_this_ones_speed(clock: Clock) -> None:
    run = Run("a")
    run.finish("a", 50, 1.0)
    measured = Meter(run.controller)
    measured.begin(run.history)
    clock.now += 10
    run.finish("a", 25, 1.0)  # 25 in ten seconds, and 25 to go
    assert measured.time_left(run.history) == pytest.approx((10.0, ""))


def test_the_rate_is_that_of_late(clock: Clock) -> None:
    run = Run("a")
    measured = Meter(run.controller)
    (row,) = measured.rows(run.history)
    assert row.rate is None
    for _ in range(30):
        clock.now += 1
        run.finish("a", 3, 0.1)
        (row,) = measured.rows(run.history)
    assert row.rate == pytest.approx(3.0)
    assert row.good == 90


@pytest.mark.parametrize(("cores", "running"), [(1, 4), (2, 2), (4, 1)])
def test_only_as_many_tasks_run_as_there_are_cores(clock: Clock, cores: int, running: int) -> None:
    run = Run("a", cores=cores)
    stage = SimpleNamespace(name="a")
    run.controller.sent.update({number: SimpleNamespace(stage=stage, cores=cores) for number in range(8)})
    (row,) = Meter(run.controller).rows(run.history)
    assert row.running == running


# --- blocks ---------------------------------------------------------------------------------------


def test_what_runs_in_blocks_is_what_the_journal_says(clock: Clock) -> None:
    run = Run("a")
    run.controller.plan.executor = "blocks"
    for index in range(7):  # more than the plan's capacity: blocks come and go
        run.history.stage("a").set(index, TaskState.RUNNING)
    run.history.stage("a").set(7, TaskState.QUEUED)
    (row,) = Meter(run.controller).rows(run.history)
    assert row.running == 7


def plan() -> Plan:
    """Two shapes on a pool of two-node blocks with eight cores a node."""
    text = "stages: {a: {command: [x]}, b: {command: [x], resources: {ranks: 4, nodes: 3}}}"
    pool = {"cores": 8, "nodes": 4, "block_nodes": 2, "blocks": 4}
    site = Site.model_validate({"name": "here", "scheduler": "slurm", "pools": {"cpu": pool}})
    return make_plan(check(Path("w.yaml"), text=f"diel: 1\nname: w\n{text}"), site)


def with_blocks(*blocks: tuple[str, str, str], silent: str = "") -> History:
    history = History(silent=silent)
    for number, (state, shape, reason) in enumerate(blocks):
        record = {"block": f"1-{number}", "job": str(100 + number), "pool": "cpu", "shape": shape}
        ended = None if state in ("pending", "running", "ending") else 1.0
        more = {"state": state.replace("given back", "running"), "reason": reason, "ended": ended}
        more["hopeless"] = reason == "PartitionNodeLimit"
        history.apply(as_record({"event": "block", "ending": False, **record, **more}))
    return history


@pytest.mark.parametrize(
    ("blocks", "told"),
    [
        ([], ""),
        ([("pending", "cpu-1c", "Priority")], "waiting for a block: job 100 pending (Priority)"),
        ([("pending", "cpu-1c", "")], "waiting for a block: job 100 pending"),
        (
            [("pending", "cpu-1c", "Priority"), ("pending", "cpu-3n", "PartitionNodeLimit")],
            "waiting for a block: job 101 pending (PartitionNodeLimit) and 1 more",
        ),
        ([("running", "cpu-1c", "")], "1 block, 16 cores"),
        ([("running", "cpu-1c", ""), ("running", "cpu-3n", "")], "2 blocks, 40 cores"),
        (
            [("running", "cpu-1c", ""), ("pending", "cpu-1c", "Resources")],
            "1 block, 16 cores, job 101 pending (Resources)",
        ),
        ([("completed", "cpu-1c", "")], ""),
    ],
)
def test_blocks_are_told_in_a_line(blocks: list[tuple[str, str, str]], told: str) -> None:
    assert blocks_text(plan(), with_blocks(*blocks)) == told


def test_a_scheduler_that_does_not_answer_is_told_with_them() -> None:
    history = with_blocks(("running", "cpu-1c", ""), silent="squeue:\ntimed out")
    assert (
        blocks_text(plan(), history) == "1 block, 16 cores, the scheduler does not answer: squeue: timed out"
    )


def test_a_shape_that_only_retries_have_is_as_large_as_its_pools_blocks() -> None:
    assert blocks_text(plan(), with_blocks(("running", "cpu-1c-4096MiB", ""))) == "1 block, 16 cores"
