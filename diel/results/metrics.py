"""What the tasks of a stage reported while they ran, in the order of tasks, attempts and lines."""

import os
import time
from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from diel.axes.adaptive import SearchAxis
from diel.errors import UsageError, counted, did_you_mean
from diel.journal.axis_history import Course, Trial
from diel.paths import RunPaths
from diel.results.picked import picked_tasks
from diel.results.reader import RunReader
from diel.results.rows import answered_of
from diel.states import RunState, TaskState, TrialState
from diel.status.axis import axes_of
from diel.table import Listing, Moment
from diel.tasks.metrics import FILE, Metric, Metrics
from diel.tasks.results import origin_dirs
from diel.values import is_finite


def list_metrics(
    run: RunReader, stage: str, limit: int | None = None, at: Mapping[str, Any] | None = None
) -> Listing:
    """Return a row for each value reported: point, attempt, step, metric, value. Raise UsageError."""
    run.check_stage(stage, "metrics are a stage's; ")
    names, total = run.setting_names(stage), run.history.stage(stage).total
    indices = picked_tasks(run, stage, range(total), at) if at else range(total)
    rows: list[tuple[Any, ...]] = []
    reporting: set[int] = set()
    head: tuple[Any, ...] = ()
    for index, attempt, metric in reported(run, stage, indices):
        if index not in reporting:
            reporting.add(index)
            head = (f"{stage}/{index}", *map(run.setting(stage, index).get, names))
        if limit is None or len(rows) < limit:
            moment = None if metric.time is None else Moment(metric.time)
            rows.append((*head, attempt, *metric._replace(time=moment)))
    silent = len(indices) - len(reporting)
    note = f"{silent:,} of {counted(len(indices), 'task')} of '{stage}' have reported nothing"
    columns = ("task", *names, "attempt", "metric", "step", "value", "time")
    return Listing(columns, rows, {stage: note} if silent else {})


def reported(run: RunReader, stage: str, indices: Container[int]) -> Iterator[tuple[int, int, Metric]]:
    """Yield what tasks of a stage reported, with task and attempt; of the cache, in the run that made it."""
    own = (place for place in _attempts(run.paths, stage) if place[0] in indices)
    folders = {place: run.paths.task_dir(stage, *place) for place in own}
    cached = run.history.stage(stage).states.count(TaskState.CACHED)
    for record in run.results(stage, b'"origin"') if cached else ():
        if record["index"] in indices:
            made_in = origin_dirs(record, run.paths.root.parent)
            folders.update({(record["index"], attempt): folder for attempt, folder in made_in})
    for index, attempt in sorted(folders):
        for metric in Metrics(folders[index, attempt] / FILE).all():
            yield index, attempt, metric


def _attempts(paths: RunPaths, stage: str) -> Iterator[tuple[int, int]]:
    """Yield the attempts of a stage's tasks that have a directory: most wrote nothing and have none."""
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


def curves(run: RunReader, stage: str, indices: Container[int]) -> dict[int, dict[str, Curve]]:
    """Return the numbers that tasks reported, by task and metric. At one step the later attempt's counts."""
    curves_by_task: dict[int, dict[str, Curve]] = {}
    for index, _, metric in reported(run, stage, indices):
        if is_finite(metric.value):
            curve = curves_by_task.setdefault(index, {}).setdefault(metric.name, {})
            curve[metric.step] = float(metric.value), metric.time
    return curves_by_task


class TrialRun(NamedTuple):
    """A trial, where its search ran it, and what it reported on its way."""

    trial: Trial
    course: Course
    state: str
    """That of the trial; `waiting` if it is under way and no task of it runs now."""
    steps: dict[int, float]
    """What a trial reported to its pruner, or else in the metrics of its task, by step."""


def list_trials(run: RunReader, label: str | None = None, limit: int | None = None) -> Listing:
    """Return a row for each trial of a search: all that were requested, whatever became of them. Raise
    UsageError where there is no such search, and where it is not said which of several is meant."""
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


def searches(run: RunReader) -> dict[str, SearchAxis]:
    """Return the searches of a run, by their labels."""
    return {label: axis for label, axis in run.adaptive.items() if isinstance(axis, SearchAxis)}


def find_search(run: RunReader, label: str | None) -> SearchAxis:
    """Return the search with this label; the only one if none is given. Raise UsageError."""
    axes = searches(run)
    if label is None and len(axes) == 1:
        return next(iter(axes.values()))
    if label in axes:
        return axes[label]
    there = f"its searches: {', '.join(axes)}" if axes else "no axis of its workflow is a search"
    wrong = "say which search is meant" if label is None else f"no search '{label}'"
    raise UsageError(f"{run.paths.run_id}: {wrong}; {did_you_mean(label or '', axes) or there}")


def trials_of(run: RunReader, axis: SearchAxis) -> Iterator[TrialRun]:
    """Yield all trials of a search, course by course, in their order."""
    driven = run.state is RunState.RUNNING
    shown = axes_of(run.paths, run.history, time.time(), driven=driven)
    views = [course for status in shown if status.label == axis.label for course in status.courses]
    runs = {(view.context, row.trial.number) for view in views for row in view.running if row.running}
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


def _in_metrics(run: RunReader, axis: SearchAxis) -> dict[tuple[tuple[int, ...], int], dict[int, float]]:
    """Return what tasks reported of the watched metric, by course and trial."""
    stage, _, metric = axis.axis.watched.rpartition(".")
    domain = run.domain(stage)
    reports: dict[tuple[tuple[int, ...], int], dict[int, float]] = {}
    if domain is None:
        return reports
    for index, by_metric in curves(run, stage, range(domain.size)).items():
        place = domain.coordinates(index)
        steps = {step: value for step, (value, _) in by_metric.get(metric, {}).items()}
        reports[axis.context(place), place[axis.label]] = steps
    return reports
