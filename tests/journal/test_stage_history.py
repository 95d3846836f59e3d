"""What is known of a stage's tasks, and many tasks as a few pairs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.base.states import TaskState
from diel.store.journal.stage_history import StageHistory, covers, ranges, spread


@given(st.sets(st.integers(0, 60)))
def test_ranges_and_spread_undo_each_other(indices: set[int]) -> None:
    packed = ranges(sorted(indices))
    assert list(spread(packed)) == sorted(indices)
    assert all(first <= last for first, last in packed)
    assert all(before[1] + 1 < behind[0] for before, behind in pairwise(packed))


@pytest.mark.parametrize("count", [1, 1_000_000])
def test_a_million_neighbours_are_one_pair(count: int) -> None:
    assert ranges(range(count)) == [[0, count - 1]]


def test_covers_finds_what_was_packed() -> None:
    packed = ranges([1, 2, 3, 7])
    assert [index for index in range(9) if covers(packed, index)] == [1, 2, 3, 7]
    assert covers(packed, None)


@pytest.fixture
def stage() -> StageHistory:
    """Four tasks: one done at its second attempt, one from the cache, one left out, one that never came."""
    stage = StageHistory("analysis", 5, bytearray())
    stage.set(0, TaskState.DONE)
    stage.committed[0] = 2
    stage.set(1, TaskState.CACHED)
    for index, reason in ((2, "when"), (3, "axis")):
        stage.set(index, TaskState.SKIPPED)
        stage.leave_out(index, reason)
    return stage


def test_points_that_never_came_are_no_tasks_and_what_was_not_named_waits(stage: StageHistory) -> None:
    assert (stage.never, stage.expected) == (1, 4)
    counts = stage.counts()
    assert (counts["done"], counts["cached"], counts["skipped"], counts["waiting"]) == (1, 1, 1, 1)


def test_what_is_tried_again_is_not_left_out_any_more(stage: StageHistory) -> None:
    stage.let_go(verdicts=True)
    assert (stage.never, stage.counts()["waiting"], stage.counts()["done"]) == (0, 3, 1)


def test_a_fence_takes_a_result_away_up_to_its_attempt(stage: StageHistory) -> None:
    stage.fence(0, 1)
    assert stage.is_good(0), "the result is of the second attempt"
    stage.fence(0, 2)
    assert not stage.is_good(0)
    stage.fence(1, 3)
    assert stage.is_good(1), "what the cache gave was no attempt"


def test_lost_files_take_a_result_away_and_the_next_attempt_is_a_later_one(stage: StageHistory) -> None:
    stage.dropped["out"] = {0}
    stage.lose(0, 2)
    assert (stage.is_good(0), stage.latest(0), stage.dropped["out"]) == (False, 2, set())
    assert stage.is_gone(0, 2)
    assert not stage.is_gone(0, 3)


def test_attempts_count_only_upwards(stage: StageHistory) -> None:
    stage.count_attempt(4, 2)
    stage.count_attempt(4, 1)
    assert stage.attempts == {4: 2}
    stage.count_attempt(1, 1)
    assert 1 not in stage.attempts, "the first attempt of a task with a result says nothing new"
