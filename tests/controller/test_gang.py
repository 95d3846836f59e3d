"""Tasks that run at the same time: handed out together, in their turn, each place once."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from diel.backends.blocks.dispatcher import Dispatcher, reset
from diel.backends.blocks.local import ThisMachine
from diel.controller.finder import Finder
from diel.controller.gang import Gangs, StreamManager
from diel.worker.attempt.bundle import Bundle
from diel.workflow.models import Service
from tests.controller.bench import Bench

FOREVER = float("inf")
LINE = ""
"""All stand in one line on one machine."""
PAIRS = """
axes: {i: {range: 5}}
stages:
  one: {command: [work], over: [i], beside: [two]}
  two: {command: [work], over: [i]}
"""


class Idle:
    """Takes bundles and never runs them."""

    def submit(self, bundle: Bundle) -> Future[bytes]:
        return Future()


class Crowd:
    """The gangs of a workflow on so many cores."""

    def __init__(self, folder: Path, text: str, cores: int) -> None:
        self.bench = Bench(folder, text)
        stages, ledger = self.bench.stages, self.bench.ledger
        self.backend = ThisMachine(self.bench.plan._replace(capacity=cores), ledger)
        self.dispatcher = Dispatcher(self.bench.plan, ledger, 1, self.backend)
        self.finder = Finder(stages, ledger, None, frozenset())
        self.gangs = Gangs(self.bench.plan, stages, ledger, self.finder, self.dispatcher)

    def hand_out(self, full: set[str] | None = None) -> list[tuple[str, int]]:
        """What goes out until there is no more room."""
        before = set(self.dispatcher.in_flight)
        full = set() if full is None else full
        while any(self.gangs.hand_out(run, full, FOREVER) for run in self.bench.stages.runs.values()):
            pass
        return sorted(self.dispatcher.in_flight.keys() - before)

    def end(self, stage: str, index: int) -> None:
        """A task ends well."""
        self._leave(stage, index)
        self.bench.done(stage, index)

    def stumble(self, stage: str, index: int, later: bool = False) -> None:
        """A task has to run again, at once or in a while."""
        self._leave(stage, index)
        run = self.bench.stages.runs[stage]
        reset(run, index)
        if not later:
            run.look_at([index])

    def _leave(self, stage: str, index: int) -> None:
        number = self.dispatcher.in_flight.pop((stage, index)).bundle
        self.dispatcher.pop(number)


@pytest.fixture(autouse=True)
def nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamManager, "begin", lambda *_: None)
    monkeypatch.setattr("diel.backends.blocks.local.Pipes", lambda *_: Idle())


def test_a_place_goes_out_whole_or_not_at_all(workspace: Path) -> None:
    crowd = Crowd(workspace, PAIRS, 5)
    assert crowd.hand_out() == [("one", 0), ("one", 1), ("two", 0), ("two", 1)]
    crowd.end("one", 0)
    assert crowd.hand_out() == [("one", 2), ("two", 2)]
    crowd.end("two", 0)
    assert crowd.hand_out() == []
    crowd.end("one", 1)
    assert crowd.hand_out() == [("one", 3), ("two", 3)]


def test_what_has_to_run_again_goes_before_places_that_have_not_begun(workspace: Path) -> None:
    crowd = Crowd(workspace, PAIRS, 4)
    crowd.hand_out()
    crowd.stumble("two", 1)
    assert crowd.hand_out() == [("two", 1)]


def test_room_is_kept_for_what_others_wait_for(workspace: Path) -> None:
    """It runs again in a while; meanwhile nothing takes its place."""
    crowd = Crowd(workspace, PAIRS, 4)
    crowd.hand_out()
    crowd.stumble("two", 0, later=True)
    crowd.end("one", 1)
    assert crowd.hand_out() == []
    crowd.bench.stages.runs["two"].look_at([0])
    assert crowd.hand_out() == [("two", 0)]


def test_a_gang_without_room_stands_in_line_and_nobody_goes_before_it(workspace: Path) -> None:
    crowd = Crowd(workspace, PAIRS, 2)
    crowd.hand_out()
    crowd.end("one", 0)
    full: set[str] = set()
    assert crowd.hand_out(full) == []
    assert full == {LINE}
    crowd.end("two", 0)
    assert crowd.hand_out({LINE}) == []  # others came first
    assert crowd.hand_out() == [("one", 1), ("two", 1)]


def test_a_gang_that_waits_for_a_service_to_end_is_in_nobodys_way(workspace: Path) -> None:
    crowd = Crowd(workspace, PAIRS, 2)
    up = crowd.bench.stages.work_of(crowd.bench.stages.runs["one"], 0)._replace(service=Service())
    bundle = Bundle(7, "", 1, up, (), 1.0)
    crowd.backend.submit(next(iter(crowd.bench.plan.shapes)), 1, bundle)  # holds a core
    full: set[str] = set()
    assert crowd.hand_out(full) == []
    assert not full


def test_a_partner_that_never_comes_is_not_waited_for(workspace: Path) -> None:
    text = PAIRS.replace("beside: [two]", 'beside: [two], when: "${{ i != 1 }}"')
    crowd = Crowd(workspace, text, 3)
    assert crowd.hand_out() == [("one", 0), ("two", 0), ("two", 1)]


def test_the_cost_of_a_place_does_not_grow_with_their_number(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = Crowd(workspace, PAIRS.replace("5", "500"), 2)
    looks = 0
    held = Finder.is_held

    def counted(finder: Finder, stage: str, index: int) -> bool:
        nonlocal looks
        looks += 1
        return held(finder, stage, index)

    monkeypatch.setattr(Finder, "is_held", counted)
    for index in range(500):
        assert crowd.hand_out() == [("one", index), ("two", index)]
        crowd.end("one", index)
        crowd.end("two", index)
    assert looks < 500 * 20
    assert crowd.hand_out() == []
    assert all(not line.begun for line in crowd.gangs._lines)
