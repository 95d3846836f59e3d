"""An edge while its stages run: a task goes on exactly when what it waits for lets it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diel.base.states import TaskState
from diel.store.journal.stage_history import StageHistory
from diel.tasks.link import Link, Verdict
from diel.tasks.points.domain import UNKNOWN, make_domain
from diel.tasks.stage_run import StageRun
from diel.workflow.graph import Edge
from diel.workflow.models import Stage
from diel.workflow.models.forms.axis import Points
from tests.axes.test_domain import Setup, setups

SPEC = Stage.model_validate({"command": ["true"]})


def stage_run(name: str, setup: Setup) -> StageRun:
    over, counts, _ = setup
    domain = make_domain(*setup)
    points: dict[str, Any] = {axis: Points((axis,), (range(counts[axis]),)) for axis in over}
    history = StageHistory("analysis", domain.size, bytearray(domain.size))
    return StageRun(name, SPEC, history, 0, domain, points)


def linked(up: Setup, down: Setup, at: dict[str, int], min_success: float = 1.0) -> Link:
    matched = tuple(axis for axis in up[0] if axis in down[0] and axis not in at)
    gathered = tuple(axis for axis in up[0] if axis not in down[0] and axis not in at)
    edge = Edge((), "up", "down", "x", "x", None, at, matched, gathered, min_success)
    link = Link(edge, stage_run("up", up), stage_run("down", down))
    link.resolve()
    return link


@st.composite
def links(draw: st.DrawFn) -> Link:
    """Two stages over some of the same axes, derived ones among them; some axes picked."""
    up = draw(setups())
    _, counts, origins = up
    axes = draw(st.permutations(sorted(counts)))
    down = (tuple(axes[: draw(st.integers(0, 3))]), counts, origins)
    picked = draw(st.lists(st.sampled_from(up[0]), unique=True, max_size=1)) if up[0] else []
    at = {axis: draw(st.integers(0, max(counts[axis] - 1, 0))) for axis in picked}
    return linked(up, down, at, draw(st.sampled_from([0.1, 0.3, 0.5, 0.9, 1.0])))


def read_by(link: Link, down: int) -> list[int]:
    """The upstream tasks that a downstream task reads, by a look at each."""
    assert link.up.domain is not None
    assert link.down.domain is not None
    there = link.down.domain.coordinates(down)
    fixed = {axis: there[axis] for axis in link.edge.matched} | dict(link.edge.picked)
    found = []
    for index in range(link.up.domain.size):
        here = link.up.domain.coordinates(index)
        if all(here[axis] == place for axis, place in fixed.items()):
            found.append(index)
    return found


def verdict_of(link: Link, down: int) -> Verdict:
    return link.verdict(link.group_of_downstream(down))


def expected(link: Link, down: int) -> Verdict:
    """What the states of the tasks that are read mean."""
    read = read_by(link, down)
    states = [link.up.history.state(index) for index in read]
    good = sum(state.good for state in states)
    open_ = sum(not state.ended for state in states)
    omitted = sum(index in link.up.omitted for index in read)
    if link.missing or not (link.edge.gathered or read):
        return Verdict.FAILED
    wanted = len(read) - omitted
    if good + open_ < Fraction(str(link.edge.min_success)) * wanted:
        return Verdict.FAILED
    if open_:
        return Verdict.WAITING
    return Verdict.OMITTED if omitted and not link.edge.gathered else Verdict.READY


@given(links())
def test_a_task_reads_those_that_agree_on_the_matched_axes_and_are_picked(link: Link) -> None:
    for down in range(link.down.size):
        assert list(link.members(link.group_of_downstream(down))) == (
            [] if link.missing else read_by(link, down)
        )


@given(links())
def test_those_that_depend_on_a_task_are_those_that_read_it(link: Link) -> None:
    readers = {down: set(read_by(link, down)) for down in range(link.down.size)}
    for up in range(link.up.size):
        group = link.group_of_upstream(up)
        told = [] if group is None else list(link.dependents(group))
        assert told == [down for down, read in readers.items() if up in read]


ENDS = [TaskState.DONE, TaskState.CACHED, TaskState.FAILED, TaskState.CANCELLED, TaskState.SKIPPED]


@settings(max_examples=100)
@given(links(), st.data())
def test_a_verdict_is_what_the_ended_tasks_mean_and_is_told_to_those_that_wait(
    link: Link, data: st.DataObject
) -> None:
    """It never changes once it is told, and it comes as soon as it cannot change any more."""
    told: set[int] = {d for d in range(link.down.size) if expected(link, d) is not Verdict.WAITING}
    for index in data.draw(st.permutations(range(link.up.size))):
        state = data.draw(st.sampled_from(ENDS))
        if state is TaskState.SKIPPED and data.draw(st.booleans()):
            link.up.omitted.add(index)
        link.up.history.set(index, state)
        link.up.ended += 1
        before = {down: verdict_of(link, down) for down in told}
        link.count(index)
        told |= set(link.woken_by(index))
        for down in range(link.down.size):
            assert verdict_of(link, down) is expected(link, down)
            assert (down in told) == (expected(link, down) is not Verdict.WAITING)
        assert all(verdict_of(link, down) is verdict for down, verdict in before.items())


def plain(over: str, **counts: int) -> Setup:
    return tuple(over), counts, {}


def end(link: Link, **states: TaskState) -> list[int]:
    """Ends upstream tasks (`t3=DONE`); returns the downstream tasks that are told to look."""
    told = []
    for name, state in states.items():
        index = int(name[1:])
        link.up.history.set(index, state)
        link.up.ended += 1
        link.count(index)
        told += list(link.woken_by(index))
    return told


def test_matched_tasks_go_on_one_by_one_without_a_barrier() -> None:
    link = linked(plain("a", a=3), plain("a", a=3), {})
    assert end(link, t1=TaskState.DONE) == [1]
    assert [verdict_of(link, down) for down in range(3)] == [Verdict.WAITING, Verdict.READY, Verdict.WAITING]


def test_a_gather_waits_for_all_and_reads_those_that_are_good_in_axis_order() -> None:
    link = linked(plain("a", a=4), plain(""), {}, min_success=0.5)
    assert end(link, t3=TaskState.DONE, t0=TaskState.FAILED, t2=TaskState.DONE) == []
    assert end(link, t1=TaskState.FAILED) == [0]
    assert verdict_of(link, 0) is Verdict.READY
    assert list(link.good_members(())) == [2, 3]


def test_a_gather_that_cannot_succeed_any_more_fails_at_once() -> None:
    link = linked(plain("a", a=10), plain(""), {}, min_success=0.9)
    assert end(link, t0=TaskState.FAILED) == []
    assert end(link, t1=TaskState.FAILED) == [0]
    assert verdict_of(link, 0) is Verdict.FAILED


@pytest.mark.parametrize(
    ("share", "tasks", "bad", "verdict"),
    [
        (0.9, 10, 1, "ready"),
        (0.7, 10, 3, "ready"),
        (0.7, 10, 4, "failed"),
        (0.55, 100, 45, "ready"),
        (0.55, 100, 46, "failed"),
    ],
)
def test_a_share_is_taken_as_it_is_written(share: float, tasks: int, bad: int, verdict: str) -> None:
    """0.55 × 100 is a little more than 55 in doubles."""
    link = linked(plain("a", a=tasks), plain(""), {}, min_success=share)
    ends = {f"t{i}": TaskState.FAILED if i < bad else TaskState.DONE for i in range(tasks)}
    end(link, **ends)
    assert verdict_of(link, 0).value == verdict


def test_a_share_is_of_those_that_a_condition_left_in() -> None:
    link = linked(plain("a", a=10), plain(""), {}, min_success=0.7)
    link.up.omitted |= {0, 1, 2, 3, 4}
    end(link, **{f"t{i}": TaskState.SKIPPED for i in range(5)}, t5=TaskState.FAILED)
    assert verdict_of(link, 0) is Verdict.WAITING
    end(link, t6=TaskState.FAILED)
    assert verdict_of(link, 0) is Verdict.FAILED


def test_tasks_that_a_condition_left_out_are_no_failures() -> None:
    link = linked(plain("a", a=2), plain(""), {})
    link.up.omitted.add(0)
    end(link, t0=TaskState.SKIPPED, t1=TaskState.DONE)
    assert verdict_of(link, 0) is Verdict.READY
    link = linked(plain("a", a=2), plain(""), {})
    link.up.omitted |= {0, 1}
    end(link, t0=TaskState.SKIPPED, t1=TaskState.SKIPPED)
    assert verdict_of(link, 0) is Verdict.READY


def test_a_gather_of_nothing_is_an_empty_list() -> None:
    link = linked(plain("a", a=0), plain(""), {})
    assert verdict_of(link, 0) is Verdict.READY
    assert list(link.good_members(())) == []


def test_a_picked_point_alone_is_waited_for() -> None:
    link = linked(plain("ab", a=2, b=2), plain(""), {"a": 1})
    assert end(link, t2=TaskState.DONE, t0=TaskState.FAILED) == []
    assert end(link, t3=TaskState.DONE) == [0]
    assert list(link.good_members(())) == [2, 3]


def test_a_point_that_is_not_there_fails_what_waits_for_it() -> None:
    link = linked(plain("a", a=2), plain(""), {})
    link.edge = Edge((), "up", "down", "x", "x", None, {"a": 7}, (), ())
    link.resolve()
    assert link.missing
    assert verdict_of(link, 0) is Verdict.FAILED


def test_a_stage_whose_axes_are_not_known_yet_is_waited_for_and_one_that_never_will_be_fails() -> None:
    link = linked(plain("a", a=2), plain(""), {})
    link.up.domain = UNKNOWN
    assert verdict_of(link, 0) is Verdict.WAITING
    link.up.void = True
    assert verdict_of(link, 0) is Verdict.FAILED


def test_a_million_matched_tasks_are_linked_without_a_list() -> None:
    link = linked(plain("a", a=10**6), plain("a", a=10**6), {})
    assert end(link, t999999=TaskState.DONE) == [999999]
    assert end(link, t5=TaskState.FAILED) == [5]
