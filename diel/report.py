"""A short report of a run, in Markdown: how it stands, what searches and loops found, where results are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diel.journal.axis_history import Trial
from diel.results import Recorded, summarize
from diel.states import TaskState
from diel.status import AxisStatus, CourseStatus, StageStatus, Status, failure_document, read_status, task_of
from diel.status.axis_lines import at_text, objectives_text, standing_text
from diel.status.surrogate import SurrogateStatus, terms, told, trouble
from diel.status.tasks import count_text
from diel.table import shown
from diel.values import format_duration

if TYPE_CHECKING:
    from diel.journal.records import Failed

MAX_ROWS = 20
"""Rows of a table: trials of a front, rounds, failures. The rest is counted."""
MAX_COURSES = 10
"""Courses of one search or loop that are told one by one."""
LINE = 200
"""Characters of a message."""


def write_report(run: Recorded) -> str:
    """The report of a run. Raises DielError where its files cannot be read."""
    status = read_status(run.paths)
    lines = [
        *_head(run, status),
        *_stages(status),
        *_surrogates(status.surrogates),
        *(line for axis in status.axes for line in _axis(axis)),
        *_failures(status),
        *_results(run),
    ]
    return "\n".join(lines) + "\n"


def _head(run: Recorded, status: Status) -> Iterator[str]:
    yield f"# {_text(status.run)}: {status.state}"
    yield ""
    if run.workflow.description:
        yield _text(run.workflow.description)
        yield ""
    total = "?" if status.total is None else f"{status.total:,}"
    facts = [
        ("workflow", f"{status.workflow} ({run.run_file.source})"),
        ("directory", str(run.paths.root)),
        ("began", _clock(status.began)),
        ("ended", _clock(status.ended)),
        ("took", format_duration(status.elapsed)),
        ("tasks", f"{status.good:,} of {total} done{_others(status)}"),
        ("used results of", ", ".join(status.uses)),
        ("site", status.site),
    ]
    yield from (f"- {name}: {_text(value)}" for name, value in facts if value)
    yield ""


def _others(status: Status) -> str:
    states = (TaskState.CACHED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)
    told = [count_text(s, status.count(s), status.tolerated) for s in states if status.count(s)]
    return f" ({', '.join(told)})" if told else ""


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"


# --- stages ---------------------------------------------------------------------------------------


def _stages(status: Status) -> Iterator[str]:
    yield "## Stages"
    yield ""
    states = (TaskState.CACHED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)
    used = [state for state in states if status.count(state)]
    header = ["stage", "kind", "done", *(state.label for state in used), "mean time"]
    yield from _table(header, [_stage_row(stage, used) for stage in status.stages])


def _stage_row(stage: StageStatus, states: Sequence[TaskState]) -> list[str]:
    total = "?" if stage.total is None else f"{stage.total:,}"
    seconds = stage.mean_seconds
    mean = (
        "" if seconds is None else format_duration(seconds) if seconds >= 0.1 else f"{1000 * seconds:.0f}ms"
    )
    counts = [f"{stage[state]:,}" if stage[state] else "" for state in states]
    return [stage.name, stage.kind, f"{stage.good:,} of {total}", *counts, mean]


def _surrogates(found: Mapping[str, SurrogateStatus]) -> Iterator[str]:
    if not found:
        return
    yield "## Surrogates"
    yield ""
    for name, surrogate in found.items():
        yield f"- {name}: {_text(told(surrogate))}"
        if trouble(surrogate):
            yield f"- {name}: {_cut(_text(trouble(surrogate)))}"
    yield ""
    rows = [[name, *terms(surrogate).values()] for name, surrogate in found.items()]
    yield from _table(["stage", *terms(next(iter(found.values())))], rows)


# --- searches and loops ---------------------------------------------------------------------------


def _axis(axis: AxisStatus) -> Iterator[str]:
    facts = axis.facts
    if facts.kind == "loop":
        yield f"## Loop `{axis.label}`" + (f" until `{axis.condition}`" if facts.until else "")
    else:
        yield f"## Search `{axis.label}`: {_text(objectives_text(axis))} ({facts.sampler})"
    yield ""
    if not axis.courses:
        yield "It has not begun."
        yield ""
    for course in axis.courses[-MAX_COURSES:]:
        if facts.context:
            yield f"### {_text(at_text(course))}"
            yield ""
        yield f"{_text(standing_text(course))}."
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
    yield from _table(header, [_trial_row(trial, names) for trial in trials[:MAX_ROWS]])
    yield from _rest(len(trials), "trials of the front")


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
    yield from _table(["round", *names, "holds"], rows)


# --- failures and results -------------------------------------------------------------------------


def _failures(status: Status) -> Iterator[str]:
    void = [stage for stage in status.stages if stage.void]
    if not status.failures and not void:
        return
    yield "## Failures"
    yield ""
    yield from (f"- {stage.name}: no tasks, {_text(stage.void)}" for stage in void)
    if void:
        yield ""
    if status.failures:
        rows = [_failure_row(record) for record in status.failures[:MAX_ROWS]]
        yield from _table(["task", "class", "message"], rows)
        yield from _rest(status.count(TaskState.FAILED), "failed tasks")
        yield f"`diel explain {status.run} {task_of(status.failures[0])}` tells more."
        yield ""


def _failure_row(record: Failed) -> list[str]:
    told = failure_document(record)
    tolerated = f"tolerated by {told['tolerated']}: " if told["tolerated"] else ""
    return [told["task"], str(told["class"]), _cut(tolerated + str(told["message"]).strip())]


def _results(run: Recorded) -> Iterator[str]:
    yield "## Results"
    yield ""
    table = summarize(run)
    if not table.rows:
        yield "There are none yet."
        return
    yield from _table(
        ["output", "axes", "results", "first"],
        [[str(cell) for cell in row[:3]] + [_first(row[3], run.paths.root)] for row in table.rows],
    )
    yield f"`diel results {run.paths.run_id} {table.rows[0][0]}` prints a table."


def _first(value: Any, root: Path) -> str:
    """A result, shortened; a file by its path in the run's directory."""
    text = shown(value)
    return (
        text if not isinstance(value, str) or not value.startswith(f"{root}/") else value[len(f"{root}/") :]
    )


# --- Markdown -------------------------------------------------------------------------------------


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(_text(cell) for cell in header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(_text(cell) for cell in row)} |" for row in rows)
    yield ""


def _rest(whole: int, what: str) -> Iterator[str]:
    if whole > MAX_ROWS:
        yield f"and {whole - MAX_ROWS:,} more {what}."
        yield ""


def _cut(text: str) -> str:
    return text if len(text) <= LINE else f"{text[: LINE - 1]}…"


def _text(text: str) -> str:
    """Text that stays text in Markdown: on one line, no cell ended, no tag begun."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    for char, escaped in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;")):
        plain = plain.replace(char, escaped)
    return plain
