"""Searches and loops in words: parts of lines that several views share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.errors import counted
from diel.journal.axis_history import Trial, TrialState
from diel.states import TaskState
from diel.status.axis import AxisStatus, CourseStatus

_ORDER = (TrialState.COMPLETE, TrialState.RUNNING, TrialState.PRUNED, TrialState.FAILED)
LONG = 24
"""Characters of a value that are shown."""


def what_text(axis: AxisStatus) -> str:
    """`tpe, minimize train.loss`, `loop until check.error < 0.1`."""
    facts = axis.facts
    if facts.kind == "loop":
        return f"loop until {axis.condition}" if facts.until else "loop"
    return f"{facts.sampler}, {objectives_text(axis)}"


def objectives_text(axis: AxisStatus) -> str:
    """`minimize train.loss, maximize test.accuracy`."""
    given = axis.facts.objectives
    return ", ".join(f"{'minimize' if small else 'maximize'} {value}" for value, small in given)


def at_text(course: CourseStatus) -> str:
    """What a course runs for: `material Si, round 3`."""
    return ", ".join(f"{name} {short(value)}" for name, value in course.at.items())


def standing_text(course: CourseStatus) -> str:
    """How far it is: `12 of 20 trials: 9 complete, 2 running, 1 pruned`."""
    return _rounds_text(course) if course.facts.kind == "loop" else _trials_text(course)


def _rounds_text(course: CourseStatus) -> str:
    if course.state in ("over", "failed"):
        return f"{course.state} after {counted(course.done, 'round')}{_tolerated(course)}: {course.why}"
    most = f"at most {course.facts.size:,}" if course.facts.until else f"{course.facts.size:,}"
    verb = "" if course.state == "running" else f" ({course.state})"
    return f"round {course.round:,} of {most}, {course.done:,} done{verb}"


def _trials_text(course: CourseStatus) -> str:
    counts = ", ".join(
        f"{count:,} {_word(course, state)}" for state in _ORDER if (count := course.count(state))
    )
    told = f"{len(course.trials):,} of {counted(course.total, 'trial')}{counts and f': {counts}'}"
    if course.state in ("over", "failed"):
        told = f"{counted(len(course.trials), 'trial')}{counts and f': {counts}'}"
        told += (
            ""
            if course.reason in ("trials", "all")
            else f"; {course.state}{_tolerated(course)}: {course.why}"
        )
        told += _unheard(course)
    elif course.reason:
        told += f"; no further ones: {course.why}"
    return told


def _tolerated(course: CourseStatus) -> str:
    return f", tolerated by {course.tolerated}" if course.tolerated else ""


def _unheard(course: CourseStatus) -> str:
    """That a pruner has judged by something that no trial told: most likely its name is wrong."""
    told = course.state == "failed" or any(trial.reported for trial in course.trials)
    if told or course.facts.pruner == "none":
        return ""
    return f"; nothing was pruned, for no trial reported {course.facts.watched} on its way"


def _word(course: CourseStatus, state: TrialState) -> str:
    """Without a controller nothing runs: what was asked for waits to go on."""
    return "begun" if state is TrialState.RUNNING and course.state == "waiting" else state.value


def end_text(axis: AxisStatus, course: CourseStatus) -> str:
    """How a search or loop stands, with its best trial or its front, in one line."""
    at = at_text(course)
    told = f"{axis.label}{f' at {at}' if at else ''}: {standing_text(course)}"
    best = course.best
    if best is not None:
        told += f"; best trial {best.number}: {scores_text(best)}, {hp_text(best.hp)}"
    elif len(course.facts.objectives) > 1:
        told += f"; a Pareto front of {counted(len(course.front), 'trial')}"
    return told


def scores_text(trial: Trial) -> str:
    """The values of a trial, one an objective."""
    return ", ".join(short(value) for value in trial.values)


def hp_text(values: Mapping[str, Any]) -> str:
    """`hidden=32, learning_rate=0.01`."""
    return ", ".join(f"{name}={short(value)}" for name, value in values.items())


def short(value: object) -> str:
    """A value as people read it in a row: five digits of a float."""
    if isinstance(value, float):
        return f"{value:.5g}"
    text = str(value)
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def count_text(state: TaskState, count: int, tolerated: int) -> str:
    """`3 failed, 1 of them tolerated`: how many tasks are in a state; of those that failed, how many may."""
    text = f"{count:,} {state.label}"
    if state is not TaskState.FAILED or not tolerated:
        return text
    return f"{text}, {'' if tolerated == count else f'{tolerated:,} of them '}tolerated"
