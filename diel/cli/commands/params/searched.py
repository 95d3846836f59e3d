"""What the searches of a run found: the best trial of each, or the Pareto front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diel.errors import counted
from diel.journal.axis_history import Trial
from diel.paths import RunPaths
from diel.status import CourseStatus, read_status
from diel.table import shown


def searches_of(paths: RunPaths) -> list[tuple[str, CourseStatus]]:
    """Each search of a run with its axis; an axis that searches once for each point of others has many."""
    return [
        (axis.label, course)
        for axis in read_status(paths).axes
        if axis.facts.kind == "search"
        for course in axis.courses
    ]


def good_trials(course: CourseStatus) -> list[Trial]:
    """The best trial so far, alone, or the front of several objectives."""
    if len(course.facts.objectives) > 1:
        return course.front
    return [] if course.best is None else [course.best]


def searches_document(paths: RunPaths) -> list[dict[str, Any]]:
    """The searches of a run as JSON."""
    return [
        {
            "axis": label,
            "at": dict(course.at),
            "state": course.state,
            "reason": course.reason,
            "trials": len(course.trials),
            "objectives": [
                {"value": value, "goal": "minimize" if small else "maximize"}
                for value, small in course.facts.objectives
            ],
            "best": [trial_document(trial) for trial in good_trials(course)],
        }
        for label, course in searches_of(paths)
    ]


def trial_document(trial: Trial) -> dict[str, Any]:
    """A trial with its scores and what it set."""
    return {"trial": trial.number, "values": trial.values, "hp": trial.hp}


def searches_lines(searches: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The searches for people: a line each, and a line a good trial."""
    for search in searches:
        at = f" at {pairs(search['at'])}" if search["at"] else ""
        several = len(search["objectives"]) > 1
        what = "Pareto front" if several else "best"
        best = search["best"]
        yield f"{search['axis']}{at}: {counted(search['trials'], 'trial')}, {search['state']}" + (
            "" if best else ", none good"
        )
        for trial in best:
            scores = ", ".join(
                f"{goal['value']} = {shown(value)}"
                for goal, value in zip(search["objectives"], trial["values"], strict=True)
            )
            yield f"    {what}: {search['axis']} {trial['trial']}: {scores} with {pairs(trial['hp'])}"


def pairs(values: Mapping[str, Any]) -> str:
    """`hidden = 64, rate = 0.01`."""
    return ", ".join(f"{name} = {shown(value)}" for name, value in values.items())
