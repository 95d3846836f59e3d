"""How far a run is, measured from inside its controller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from diel.cli import meter
from diel.cli.meter import Meter
from diel.journal.history import History
from diel.states import TaskState


class Clock:
    """Time that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(meter.time, "monotonic", lambda: self.now)


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
                name=name, domain=domain, void=False, size=100, ended=0, complete=False
            )
            plans[name] = SimpleNamespace(tasks=100 if known else None, cores=cores)
        plan = SimpleNamespace(graph=SimpleNamespace(order=names), stages=plans, capacity=4)
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
    assert measured.time_left(run.history) == (pytest.approx(30.0), "")


def test_a_stage_that_has_not_begun_is_taken_to_be_like_the_others(clock: Clock) -> None:
    run = Run("a", "b")
    measured = Meter(run.controller)
    measured.begin(run.history)
    clock.now += 10
    run.finish("a", 100, 1.0)
    assert measured.time_left(run.history) == (pytest.approx(10.0), "~")


def test_a_stage_of_unknown_size_makes_it_a_lower_bound(clock: Clock) -> None:
    run = Run("a", "b", unknown=("b",))
    measured = Meter(run.controller)
    measured.begin(run.history)
    clock.now += 10
    run.finish("a", 50, 1.0)
    assert measured.time_left(run.history) == (pytest.approx(10.0), "≥")


def test_what_an_earlier_controller_did_says_nothing_of_this_ones_speed(clock: Clock) -> None:
    run = Run("a")
    run.finish("a", 50, 1.0)
    measured = Meter(run.controller)
    measured.begin(run.history)
    clock.now += 10
    run.finish("a", 25, 1.0)  # 25 in ten seconds, and 25 to go
    assert measured.time_left(run.history) == (pytest.approx(10.0), "")


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
