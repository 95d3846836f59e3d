"""Handing out tasks: how many at once, what is written down, and what is taken back."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from diel.backends.blocks.dispatcher import FIRST_BUNDLE, MAX_BUNDLE, Dispatcher
from diel.backends.blocks.local import ThisMachine
from diel.base.states import TaskState
from diel.site.shape import Shape
from diel.tasks.stage_run import StageRun
from diel.worker.attempt.bundle import Bundle
from tests.controller.bench import Bench

FLOW = """
    axes:
      i: {range: 100000}
    stages:
      work: {over: [i], command: [./work]}
      wide: {over: [i], command: [./work], resources: {cores_per_rank: 2}}
"""


class Hands:
    """A dispatcher whose bundles go nowhere."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = Bench(folder, FLOW)
        self.bundles: list[Bundle] = []
        plan, ledger = self.bench.plan, self.bench.ledger

        def submit(_: ThisMachine, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
            self.bundles.append(bundle)
            return Future()

        monkeypatch.setattr(ThisMachine, "submit", submit)
        self.dispatcher = Dispatcher(plan, ledger, 1, ThisMachine(plan, ledger))

    def stage(self, name: str = "work") -> StageRun:
        return self.bench.stages.runs[name]

    def size(self, name: str = "work") -> int:
        return self.dispatcher.bundle_size(self.stage(name), self.dispatcher.shape(self.stage(name)))

    def send(self, *indices: int) -> None:
        stage = self.stage()
        tasks = [self.bench.resolve("work", index) for index in indices]
        self.dispatcher.send(stage, self.dispatcher.shape(stage), self.bench.stages.work_of(stage, 0), tasks)


@pytest.fixture
def hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hands:
    return Hands(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("seconds", "size"), [(None, FIRST_BUNDLE), (1e-6, 1243), (0.0248, 10), (1.0, 1), (100.0, 1)]
)
def test_a_bundle_is_a_fraction_of_a_seconds_work(hands: Hands, seconds: float | None, size: int) -> None:
    hands.stage().mean_seconds = seconds
    assert hands.size() == size <= MAX_BUNDLE


def test_tasks_with_several_cores_go_alone(hands: Hands) -> None:
    assert hands.size("wide") == 1


def test_what_is_handed_out_is_written_down_first_and_goes_out_as_the_next_attempt(hands: Hands) -> None:
    hands.send(0, 1)
    (bundle,) = hands.bundles
    assert [(one.index, one.attempt) for one in bundle.requests] == [(0, 1), (1, 1)]
    assert hands.bench.ledger.history.bundles == bundle.number == 1
    assert hands.stage().history.state(1) is TaskState.QUEUED
    assert hands.dispatcher.is_out(hands.stage(), 1, 1)


def test_tasks_that_a_worker_did_not_begin_wait_again(hands: Hands) -> None:
    hands.send(0, 1)
    hands.dispatcher.take_back(hands.stage(), 1, [1])
    assert hands.stage().history.state(1) is TaskState.WAITING
    assert not hands.dispatcher.is_out(hands.stage(), 1, 1)
    hands.send(1)
    hands.dispatcher.take_back(hands.stage(), 1, [1])  # it went out in another bundle since
    assert hands.dispatcher.is_out(hands.stage(), 1, 2)


def test_a_bundle_whose_tasks_are_all_settled_is_forgotten_without_its_report(hands: Hands) -> None:
    hands.send(0)
    hands.send(1)
    del hands.dispatcher.in_flight["work", 0]
    hands.dispatcher.drop_settled()
    assert list(hands.dispatcher.sent) == [2]


def test_an_adopted_task_is_in_flight_in_no_bundle(hands: Hands) -> None:
    hands.dispatcher.adopt("work", 3, 2)
    task = hands.dispatcher.in_flight["work", 3]
    assert (task.adopted, task.attempt) == (True, 2)
