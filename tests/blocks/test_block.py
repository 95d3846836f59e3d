"""When another block is asked for, and when one is given back."""

from __future__ import annotations

import pytest

from diel.backends.blocks.block import WAITED, WORTH, Block, is_idle, wants_block
from diel.site.scheduler import JobState
from diel.site.shape import Shape

SHAPE = Shape("cpu", 0, 1)
NOW = 1000.0


def block(*, connected: bool = True, slots: int = 4, **more: float) -> Block:
    made = Block("1-0", SHAPE, slots, 600.0, 0.0, 1, state=JobState.RUNNING, connected=connected)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def wants(
    out: int, blocks: list[Block], *, age: float = 0.0, more: bool = False, backlog: float = 0.0
) -> bool:
    return wants_block(SHAPE, [NOW - age] * out, blocks, more=more, backlog=backlog, now=NOW)


def test_nothing_handed_out_needs_no_block() -> None:
    assert not wants(0, [])
    assert not wants(0, [block()])


def test_the_first_bundle_needs_the_first_block() -> None:
    assert wants(1, [])


def test_bundles_that_all_have_a_worker_need_no_further_block() -> None:
    assert not wants(4, [block()], age=100 * WAITED)


def test_a_bundle_that_waits_for_long_needs_another_block() -> None:
    assert not wants(5, [block()], age=WAITED / 2)
    assert wants(5, [block()], age=2 * WAITED)


def test_waiting_counts_from_when_the_last_block_was_there() -> None:
    assert not wants(5, [block(connected_since=NOW - WAITED / 2)], age=10 * WAITED)


def test_short_tasks_need_another_block_only_where_there_is_work_for_it() -> None:
    assert not wants(8, [block()], more=True, backlog=4 * WORTH / 2)
    assert wants(8, [block()], more=True, backlog=4 * WORTH * 2)


def test_while_a_block_waits_in_the_queue_no_other_is_asked_for_unless_tasks_say_how_long_they_take() -> None:
    pending = [block(connected=False)]
    assert not wants(8, pending, age=100 * WAITED, more=True)
    timed = Shape("cpu", 0, 1, walltime=3600.0)
    assert wants_block(timed, [NOW] * 8, pending, more=True, backlog=0.0, now=NOW)
    assert not wants_block(timed, [NOW] * 8, pending, more=False, backlog=0.0, now=NOW)


@pytest.mark.parametrize(
    ("made", "out", "others", "idle"),
    [
        (block(idle=10.0), 0, 0, True),
        (block(idle=1.0), 0, 0, False),
        (block(idle=10.0, bundles=1), 0, 0, False),
        (block(idle=10.0), 3, 4, True),
        (block(idle=10.0), 5, 4, False),
        (block(connected=False, asked=NOW - 10), 0, 0, True),
        (block(connected=False, asked=NOW - 1), 0, 0, False),
        (block(connected=False, asked=NOW - 10), 1, 4, False),
    ],
)
def test_a_block_is_given_back_when_it_idles_and_others_do_for_the_rest(
    made: Block, out: int, others: int, idle: bool
) -> None:
    assert is_idle(made, out, others, 5.0, NOW) is idle


@pytest.mark.parametrize(
    ("state", "adopted", "blame"),
    [
        (JobState.TIMEOUT, False, "walltime"),
        (JobState.TIMEOUT, True, "node"),
        (JobState.OOM, False, "oom"),
        (JobState.PREEMPTED, True, "preempted"),
        (JobState.CANCELLED, False, "node"),
        (JobState.GONE, False, "node"),
    ],
)
def test_the_end_of_a_block_says_why_its_tasks_were_lost(state: JobState, adopted: bool, blame: str) -> None:
    made = block()
    made.state = state
    assert made.blame(adopted) == blame
    assert state.value in made.told
