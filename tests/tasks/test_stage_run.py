"""A stage while it runs: which of its tasks are looked at, and when."""

from __future__ import annotations

from diel.base.states import TaskState
from diel.store.journal.stage_history import StageHistory
from diel.tasks.points.domain import Origins, make_domain
from diel.tasks.stage_run import StageRun
from diel.workflow.models import Stage
from diel.workflow.models.forms.axis import Points


def stage_run(size: int) -> StageRun:
    domain = make_domain(("a",), {"a": size}, {})
    spec = Stage.model_validate({"command": ["true"], "over": ["a"]})
    points: dict[str, Points] = {"a": Points(("a",), (range(size),))}
    history = StageHistory("analysis", size, bytearray(size))
    return StageRun("s", spec, history, 0, domain, points)


def test_tasks_are_looked_at_in_the_order_in_which_they_got_in_line() -> None:
    run = stage_run(6)
    run.look_at([3, 1])
    run.look_at(range(2, 4))
    assert list(run.candidates(0.0)) == [3, 1, 2, 3]
    assert not run.has_pending
    assert not run.in_line


def test_what_has_begun_is_passed_over_even_while_others_are_looked_at() -> None:
    run = stage_run(4)
    run.history.set(1, TaskState.DONE)
    run.look_at([0, 1, 2])
    run.look_at([0, 2, 3])
    seen = []
    for index in run.candidates(0.0):
        seen.append(index)
        run.history.set(index, TaskState.READY)
    assert seen == [0, 2, 3]


def test_a_look_that_is_broken_off_goes_on_where_it_was() -> None:
    run = stage_run(10**6)
    run.look_at(range(10**6))
    first = run.candidates(0.0)
    assert [next(first), next(first)] == [0, 1]
    assert next(run.candidates(0.0)) == 2
    assert run.has_pending


def test_a_delayed_task_is_looked_at_when_its_time_has_come() -> None:
    run = stage_run(3)
    run.later(2, 20.0)
    run.later(1, 10.0)
    assert (run.next_wake(), run.in_line, run.has_pending) == (10.0, True, False)
    assert list(run.candidates(9.0)) == []
    assert list(run.candidates(10.0)) == [1]
    assert list(run.candidates(30.0)) == [2]
    assert run.next_wake() is None


def test_a_delayed_task_that_began_or_ended_meanwhile_is_passed_over() -> None:
    """Somebody cancelled it, or it stood in line a second time."""
    run = stage_run(2)
    run.later(0, 10.0)
    run.later(1, 10.0)
    run.history.set(0, TaskState.CANCELLED)
    run.history.set(1, TaskState.QUEUED)
    assert list(run.candidates(10.0)) == []
    assert not run.in_line


def test_a_stage_is_complete_when_all_its_tasks_ended_or_never_will_be_known() -> None:
    run = stage_run(2)
    seen = [run.complete]
    run.ended = 2
    assert [*seen, run.complete] == [False, True]
    unknown = StageRun("s", run.spec, run.history, 0)
    seen = [unknown.complete]
    unknown.void = True
    assert [*seen, unknown.complete, unknown.size] == [False, True, 0]


def test_a_tasks_point_has_the_parameters_of_all_its_axes() -> None:
    run = stage_run(2)
    run.domain = make_domain(("p", "d"), {"p": 2, "d": 3}, {"d": Origins(("p",), [(0,), (1,), (1,)])})
    run.points = {"p": Points(("x", "y"), ([1, 2], [3, 4])), "d": Points(("d",), (["a", "b", "c"],))}
    assert [run.point(index) for index in range(3)] == [
        {"x": 1, "y": 3, "d": "a"},
        {"x": 2, "y": 4, "d": "b"},
        {"x": 2, "y": 4, "d": "c"},
    ]


def test_a_task_without_a_walltime_needs_what_nearly_all_others_took() -> None:
    run = stage_run(10)
    assert run.needed_seconds == 0.0
    run.history.seconds, run.history.timed = 60.0, 2
    assert run.needed_seconds == 30.0, "an earlier controller saw them"
    for _ in range(50):
        run.measure(38.0)
    assert run.needed_seconds == 38.0
    for seconds in (20.0, 56.0) * 25:
        run.measure(seconds)
    assert 56.0 < run.needed_seconds < 90.0
    run.spec = run.spec.model_copy(update={"checkpoint": True})
    assert run.needed_seconds == 0.0
