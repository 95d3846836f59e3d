"""What the records of a search or loop add up to."""

from __future__ import annotations

from typing import Any

import pytest

from diel.base.form import Contradiction
from diel.base.states import TrialState
from diel.store.journal.axis_history import AxisHistory, Course
from tests.record import as_record


def fold(*records: dict[str, Any]) -> tuple[AxisHistory, Course]:
    """An axis without context, after these records."""
    axis = AxisHistory()
    for number, record in enumerate(records):
        axis.apply(as_record({"axis": "t", "context": [], "time": float(number), **record}))
    return axis, axis.courses[()]


BEGIN = {"event": "begin", "seed": 7}
TRIALS = [{"event": "trial", "number": number, "hp": {"x": number}} for number in range(2)]
LOST = {"event": "judged", "number": 0, "state": "failed", "lost": [["f", 3]]}


def test_a_trial_is_asked_for_reports_and_is_judged_once() -> None:
    report = {"event": "reported", "number": 1, "step": 5, "value": 0.5}
    end = {"event": "judged", "number": 1, "state": "complete", "values": [0.25]}
    _, course = fold(BEGIN, *TRIALS, *TRIALS, report, report, end, {**end, "values": [9.0]}, report)
    assert [trial.hp for trial in course.trials] == [{"x": 0}, {"x": 1}]
    first, second = course.trials
    assert (first.state, second.state, second.values) == (TrialState.RUNNING, TrialState.COMPLETE, [0.25])
    assert second.reported == {5: 0.5}
    assert course.told == [[0], [1], [1, 5], [1, -1]], "what its sampler was asked and told, in that order"


def test_rounds_come_one_after_another() -> None:
    rounds = [{"event": "round", "number": n, "holds": n == 1, "values": {"e": n}} for n in (0, 0, 1)]
    _, course = fold(BEGIN, *rounds, {"event": "closed", "points": 2, "reason": "until"})
    assert [(one.number, one.holds) for one in course.rounds] == [(0, False), (1, True)]
    assert (course.over, course.points, course.reason, course.seed) == (True, 2, "until", 7)


def test_a_search_that_failed_tries_lost_trials_again_and_one_that_runs_the_cancelled_ones() -> None:
    failed = {"event": "closed", "points": 2, "reason": "no score", "failed": True}
    axis, course = fold(BEGIN, *TRIALS, LOST, failed)
    assert list(axis.reopen(lambda trial: False, 0.0, 0.0)) == []
    assert (course.over, course.trials[0].state, course.told) == (False, TrialState.RUNNING, [[0], [1]])
    axis, course = fold(BEGIN, *TRIALS, LOST)
    assert list(axis.reopen(lambda trial: False, 0.0, 0.0)) == [("f", 3)], "it stays failed"
    assert list(axis.reopen(lambda trial: True, 0.0, 0.0)) == []


def test_a_record_that_those_before_it_rule_out_is_refused() -> None:
    with pytest.raises(Contradiction, match="trial 4 has a record, but never began"):
        fold(BEGIN, {"event": "judged", "number": 4, "state": "complete"})
    with pytest.raises(Contradiction, match="`facts`"):
        AxisHistory().know({"kind": "search", "colour": "red"})
