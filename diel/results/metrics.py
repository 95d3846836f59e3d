"""What the tasks of a stage reported while they ran, in the order of tasks, attempts and lines."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from typing import Any

from diel.errors import UsageError, counted, did_you_mean
from diel.paths import RunPaths
from diel.results.picked import picked_tasks
from diel.results.reader import RunReader
from diel.states import TaskState
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
    stages = run.workflow.stages
    if stage not in stages:
        hint = did_you_mean(stage, stages) or f"stages: {', '.join(stages)}"
        raise UsageError(f"{run.paths.run_id} has no stage '{stage}'; metrics are a stage's; {hint}")
    parameters, searched = run.parameters(stage), run.searched(stage)
    total = run.history.stage(stage).total
    wanted = picked_tasks(run, stage, range(total), at) if at else range(total)
    rows: list[tuple[Any, ...]] = []
    told: set[int] = set()
    head: tuple[Any, ...] = ()
    for index, attempt, metric in reported(run, stage, wanted):
        if index not in told:
            told.add(index)
            point, trial = run.point(stage, index), run.hyperparameters(stage, index)
            values = [*map(point.get, parameters), *map(trial.get, searched)]
            head = (f"{stage}/{index}", *values)
        if limit is None or len(rows) < limit:
            said = None if metric.time is None else Moment(metric.time)
            rows.append((*head, attempt, *metric._replace(time=said)))
    names = ("task", *parameters, *(f"hp.{name}" for name in searched))
    silent = len(wanted) - len(told)
    note = f"{silent:,} of {counted(len(wanted), 'task')} of '{stage}' have reported nothing"
    columns = (*names, "attempt", "metric", "step", "value", "time")
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
