"""What the tasks of a stage reported while they ran, in the order of tasks, attempts and lines."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from diel.axes.adaptive import Searched
from diel.errors import UsageError, counted, did_you_mean
from diel.journal.axis_history import Course, Trial
from diel.paths import RunPaths
from diel.results.picked import picked_tasks
from diel.results.reader import RunReader
from diel.results.rows import answered_of
from diel.states import RunState, TaskState, TrialState
from diel.status import axes_of
from diel.table import Listing, Moment
from diel.tasks.metrics import FILE, Metric, Metrics
from diel.tasks.results import origin_dirs
from diel.values import is_finite


def list_metrics(
    run: RunReader, stage: str, limit: int | None = None, at: Mapping[str, Any] | None = None
) -> Listing:
    """A row for each value that a task of the stage reported: its point, attempt, step, metric and value.

    Raises UsageError for a stage or point that is not there.
    """
    run.check_stage(stage, "metrics are a stage's; ")
    names, total = run.setting_names(stage), run.history.stage(stage).total
    wanted = picked_tasks(run, stage, range(total), at) if at else range(total)
    rows: list[tuple[Any, ...]] = []
    told: set[int] = set()
    head: tuple[Any, ...] = ()
    for index, attempt, metric in reported(run, stage, wanted):
        if index not in told:
            told.add(index)
            head = (f"{stage}/{index}", *map(run.setting(stage, index).get, names))
        if limit is None or len(rows) < limit:
            said = None if metric.time is None else Moment(metric.time)
            rows.append((*head, attempt, *metric._replace(time=said)))
    silent = len(wanted) - len(told)
    note = f"{silent:,} of {counted(len(wanted), 'task')} of '{stage}' have reported nothing"
    columns = ("task", *names, "attempt", "metric", "step", "value", "time")
    return Listing(columns, rows, {stage: note} if silent else {})


def reported(run: RunReader, stage: str, wanted: Container[int]) -> Iterator[tuple[int, int, Metric]]:
    """What these tasks of a stage reported, each with its task and attempt.

    What is from the cache is read in the run that made it.
    """
    own = (place for place in _attempts(run.paths, stage) if place[0] in wanted)
    folders = {place: run.paths.task_dir(stage, *place) for place in own}
    cached = run.history.stage(stage).states.count(TaskState.CACHED)
    for record in run.results(stage, b'"origin"') if cached else ():
        if record["index"] in wanted:
            made_in = origin_dirs(record, run.paths.root.parent)
            folders.update({(record["index"], attempt): folder for attempt, folder in made_in})
    for index, attempt in sorted(folders):
        for metric in Metrics(folders[index, attempt] / FILE).all():
            yield index, attempt, metric


def _attempts(paths: RunPaths, stage: str) -> Iterator[tuple[int, int]]:
    """The attempts of a stage's tasks that have a directory: most have none where nothing was written."""
    try:
        with os.scandir(paths.tasks / stage) as entries:
            for entry in entries:
                index, _, attempt = entry.name.partition(".")
                if index.isdecimal() and (attempt.isdecimal() or not attempt):
                    yield int(index), int(attempt or 1)
    except OSError:
        return


Curve = dict[int, tuple[float, float | None]]
"""The numbers of a metric by step, each with its time."""


def curves(run: RunReader, stage: str, wanted: Container[int]) -> dict[int, dict[str, Curve]]:
    """The numbers that tasks reported, by task and metric; of two at one step the later attempt's counts."""
    found: dict[int, dict[str, Curve]] = {}
    for index, _, metric in reported(run, stage, wanted):
        if is_finite(metric.value):
            curve = found.setdefault(index, {}).setdefault(metric.name, {})
            curve[metric.step] = float(metric.value), metric.time
    return found


class TrialRun(NamedTuple):
    """A trial, where its search ran it, and what it reported on its way."""

    trial: Trial
    course: Course
    state: str
    """That of the trial; `waiting` if it is under way and no task of it runs now."""
    steps: dict[int, float]
    """What it reported to its pruner, or else in the metrics of its task, by step."""


def list_trials(run: RunReader, label: str | None = None, limit: int | None = None) -> Listing:
    """A row for each trial of a search: all that were requested, whatever became of them.

    Raises UsageError where there is no such search, and where it is not said which of several is meant.
    """
    axis = find_search(run, label)
    scores = [reference for reference, _ in axis.axis.objectives]
    rows: list[tuple[Any, ...]] = []
    at = dict.fromkeys(name for course in axis.history.courses.values() for name in course.at)
    for trial, course, state, steps in islice(trials_of(run, axis), limit):
        last = max(steps, default=None)
        seconds = None if trial.ended is None else round(trial.ended - trial.began, 3)
        rows.append(
            (
                *map(course.at.get, at),
                trial.number,
                state,
                *(trial.values or (None for _ in scores)),
                *([trial.parent] if axis.axis.inherits else []),
                *map(trial.hp.get, axis.axis.sets),
                last,
                None if last is None else steps[last],
                Moment(trial.began),
                seconds,
                trial.message or None,
            )
        )
    hps = (f"hp.{name}" for name in axis.axis.sets)
    about = ("last_step", "last_value", "began", "seconds", "message")
    parent = ["parent"] if axis.axis.inherits else []
    columns = (*at, axis.label, "state", *scores, *parent, *hps, *about)
    notes = {} if rows else {axis.label: f"'{axis.label}' has no trials yet"}
    for stage in dict.fromkeys(reference.rpartition(".")[0] for reference in scores):
        if answers := answered_of(run, stage):
            notes[stage] = f"a model answered {counted(answers, 'result')} of '{stage}', which scores rest on"
    return Listing(columns, rows, notes)


def searches(run: RunReader) -> dict[str, Searched]:
    """The searches of a run, by their labels."""
    return {label: axis for label, axis in run.adaptive.items() if isinstance(axis, Searched)}


def find_search(run: RunReader, label: str | None) -> Searched:
    """The search with this label; the only one if none is given. Raises UsageError."""
    known = searches(run)
    if label is None and len(known) == 1:
        return next(iter(known.values()))
    if label in known:
        return known[label]
    there = f"its searches: {', '.join(known)}" if known else "no axis of its workflow is a search"
    wrong = "say which search is meant" if label is None else f"no search '{label}'"
    raise UsageError(f"{run.paths.run_id}: {wrong}; {did_you_mean(label or '', known) or there}")


def trials_of(run: RunReader, axis: Searched) -> Iterator[TrialRun]:
    """All trials of a search, course by course, in their order."""
    driven = run.state is RunState.RUNNING
    shown = axes_of(run.paths, run.history, time.time(), driven=driven)
    views = [course for one in shown if one.label == axis.label for course in one.courses]
    runs = {(view.context, one.trial.number) for view in views for one in view.running if one.running}
    courses = axis.history.courses.values()
    reported = None
    for course in courses:
        for trial in course.trials:
            steps = trial.reported
            if not steps:
                reported = _in_metrics(run, axis) if reported is None else reported
                steps = reported.get((course.context, trial.number), {})
            idle = trial.state is TrialState.RUNNING and (course.context, trial.number) not in runs
            yield TrialRun(trial, course, "waiting" if idle else str(trial.state), steps)


def _in_metrics(run: RunReader, axis: Searched) -> dict[tuple[tuple[int, ...], int], dict[int, float]]:
    """What tasks reported of the metric that is watched, by their courses and trials."""
    stage, _, metric = axis.axis.watched.rpartition(".")
    domain = run.domain(stage)
    found: dict[tuple[tuple[int, ...], int], dict[int, float]] = {}
    if domain is None:
        return found
    for index, by_metric in curves(run, stage, range(domain.size)).items():
        place = domain.coordinates(index)
        steps = {step: value for step, (value, _) in by_metric.get(metric, {}).items()}
        found[axis.context(place), place[axis.label]] = steps
    return found
