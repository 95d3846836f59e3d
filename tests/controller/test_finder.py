"""Which tasks run: each once, however many edges it waits for, and none that need not."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.states import TaskState
from diel.controller.finder import Finder
from diel.store.project.requests import Cancel
from tests.controller.bench import Bench

FOREVER = float("inf")
PAIR = """
axes: {i: {range: 20}}
stages:
  up: {command: 'run > $DIEL_RESULT', over: [i]}
  other: {command: 'run > $DIEL_RESULT', over: [i]}
  down: {command: [echo, "${{ up.x }}", "${{ up.y }}", "${{ other.x }}"], over: [i], when: i != 7}
"""


@pytest.fixture
def bench(workspace: Path) -> Bench:
    return Bench(workspace, PAIR)


@pytest.fixture
def finder(bench: Bench) -> Finder:
    return Finder(bench.stages, bench.ledger, None, frozenset())


def found(finder: Finder, bench: Bench, stage: str, wanted: int = 100) -> list[int]:
    return [task.index for task in finder.ready_tasks(bench.stages.runs[stage], wanted, FOREVER)]


def test_tasks_without_inputs_are_ready_at_once_in_bundles_of_the_size_asked(
    bench: Bench, finder: Finder
) -> None:
    assert found(finder, bench, "up", 8) == list(range(8))
    assert found(finder, bench, "up", 8) == list(range(8, 16))
    assert found(finder, bench, "up", 8) == list(range(16, 20))
    assert found(finder, bench, "up", 8) == []


def test_a_task_that_reads_several_outputs_is_ready_once(bench: Bench, finder: Finder) -> None:
    """Each edge puts it in line when the task at its other end is done."""
    for index in (3, 4):
        bench.done("up", index, x=1, y=2)
        bench.done("other", index, x=1)
    assert found(finder, bench, "down") == [3, 4]
    assert found(finder, bench, "down") == []


def test_a_task_that_is_held_back_for_want_of_room_is_handed_out_once(bench: Bench, finder: Finder) -> None:
    stage = bench.stages.runs["up"]
    finder.hold(stage, finder.ready_tasks(stage, 3, FOREVER))
    stage.look_at(range(20))
    assert finder.has_work(stage)
    assert found(finder, bench, "up", 3) == [0, 1, 2]
    assert found(finder, bench, "up") == list(range(3, 20))


def test_a_task_waits_for_all_its_edges(bench: Bench, finder: Finder) -> None:
    bench.done("up", 3, x=1, y=2)
    assert found(finder, bench, "down") == []
    bench.done("other", 3, x=1)
    assert found(finder, bench, "down") == [3]


def test_what_depends_on_a_failure_is_skipped_and_nothing_else(bench: Bench, finder: Finder) -> None:
    for index in range(20):
        bench.done("other", index, x=1)
        if index == 5:
            bench.fail("up", index)
        else:
            bench.done("up", index, x=1, y=2)
    assert found(finder, bench, "down") == [i for i in range(20) if i not in (5, 7)]
    finder.flush()
    history = bench.ledger.history.stages["down"]
    assert history.state(5) == history.state(7) == TaskState.SKIPPED
    assert bench.stages.runs["down"].omitted == {7}, "left out by its condition, which is no failure"
    assert bench.stages.runs["down"].ended == 2


def test_an_input_that_was_not_made_fails_its_reader_alone(bench: Bench, finder: Finder) -> None:
    for index in (0, 1):
        bench.done("other", index, x=1)
        bench.done("up", index, **({"x": 1, "y": 2} if index else {"x": 1}))
    assert found(finder, bench, "down") == [1]
    assert bench.ledger.history.failures[("down", 0)]["message"] == "up/0 (i=0) made no 'y'; it made: x"
    assert bench.stages.runs["down"].ended == 1


def test_a_cancelled_task_ends_once(bench: Bench, finder: Finder) -> None:
    stage = bench.stages.runs["up"]
    finder.cancels = [Cancel(("up/2",))]
    stage.later(2, 0.0)
    assert found(finder, bench, "up") == [0, 1, *range(3, 20)]
    stage.look_at(range(20))
    stage.later(2, 0.0)
    assert found(finder, bench, "up") == []
    assert stage.history.state(2) == TaskState.CANCELLED
    assert stage.ended == 1
