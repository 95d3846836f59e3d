"""Searches and loops in a report: the best trials, the last rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diel.journal.axis_history import Trial
from diel.status.axis import AxisStatus, CourseStatus
from diel.status.axis_lines import at_text, objectives_text, standing_text
from diel.status.markdown import MAX_ROWS, plain, rest, table
from diel.table import shown

MAX_COURSES = 10
"""Courses of one search or loop that are told one by one."""


def axis_report(axes: Sequence[AxisStatus]) -> Iterator[str]:
    """A chapter for each."""
    for axis in axes:
        yield from _axis(axis)


def _axis(axis: AxisStatus) -> Iterator[str]:
    facts = axis.facts
    if facts.kind == "loop":
        yield f"## Loop `{axis.label}`" + (f" until `{axis.condition}`" if facts.until else "")
    else:
        yield f"## Search `{axis.label}`: {plain(objectives_text(axis))} ({facts.sampler})"
    yield ""
    if not axis.courses:
        yield "It has not begun."
        yield ""
    for course in axis.courses[-MAX_COURSES:]:
        if facts.context:
            yield f"### {plain(at_text(course))}"
            yield ""
        yield f"{plain(standing_text(course))}."
        yield ""
        yield from _rounds(course) if facts.kind == "loop" else _trials(course)
    hidden = len(axis.courses) - MAX_COURSES
    if hidden > 0:
        yield f"{hidden:,} that began earlier are left out; `diel status --all` shows them."
        yield ""


def _trials(course: CourseStatus) -> Iterator[str]:
    several = len(course.facts.objectives) > 1
    best = course.best
    trials = course.front if several else [best] if best is not None else []
    if not trials:
        return
    yield "Pareto front:" if several else "Best trial:"
    yield ""
    names = list(dict.fromkeys(name for trial in trials for name in trial.hp))
    header = ["trial", *(value for value, _ in course.facts.objectives), *names]
    yield from table(header, [_trial_row(trial, names) for trial in trials[:MAX_ROWS]])
    yield from rest(len(trials), "trials of the front")


def _trial_row(trial: Trial, names: Sequence[str]) -> list[str]:
    hp = [shown(trial.hp[name]) if name in trial.hp else "" for name in names]
    return [str(trial.number), *(shown(value) for value in trial.values), *hp]


def _rounds(course: CourseStatus) -> Iterator[str]:
    if not course.rounds:
        return
    names = list(dict.fromkeys(name for one in course.rounds for name in one.values))
    rows = [
        [str(one.number), *(shown(one.values.get(name)) for name in names), "yes" if one.holds else "no"]
        for one in course.rounds[-MAX_ROWS:]
    ]
    hidden = len(course.rounds) - MAX_ROWS
    if hidden > 0:
        yield f"The last {MAX_ROWS} rounds; {hidden:,} before them are left out:"
        yield ""
    yield from table(["round", *names, "holds"], rows)
