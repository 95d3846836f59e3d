"""For MLflow: an experiment in one SQLite file, each trial, and each task outside of trials, as a run."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # before its import: else it tells its makers of each call

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from diel.base.errors import counted
from diel.base.states import RunState, TaskState
from diel.base.terms import SIMULATED
from diel.base.values import is_finite
from diel.export import Key, TaskOutcome, hasten, left_out, ran
from diel.observe.results import RunReader
from diel.observe.results.attempts import Curve, curves, searches, trials_of

BATCH, PARAMS = 1000, 100
"""The most of one call: metrics and parameters together, and parameters alone."""
LONGEST = 6000
"""Characters of a parameter's value that MLflow keeps."""
_FORBIDDEN = re.compile(r"[^/\w.\- :]")
_GOES_ON = "RUNNING"
_OF_RUN = {
    RunState.PENDING: "SCHEDULED",
    RunState.RUNNING: _GOES_ON,
    RunState.SUCCEEDED: "FINISHED",
    RunState.FAILED: "FAILED",
}
_OF_TRIAL = {"complete": "FINISHED", "failed": "FAILED", "running": _GOES_ON}
_STOPPED = "KILLED"
"""What else became of one: it was pruned, cancelled, or its controller is gone."""


class MlflowRun(NamedTuple):
    """What MLflow calls a run: this one, a trial of it, or a task."""

    name: str
    params: Mapping[str, Any]
    tasks: list[Key]
    """Those whose curves, values and files it has."""
    began: float
    ended: float | None
    status: str
    scores: Mapping[str, float]
    tags: Mapping[str, str]


def write(run: RunReader, into: Path, target: Path) -> list[str]:
    """Write `mlflow.db`, and the files of tasks into `mlflow-artifacts`."""
    tasks = ran(run)
    reported = {stage: curves(run, stage, range(run.history.stage(stage).total)) for stage in run.graph.order}
    artifacts = into / "mlflow-artifacts"
    artifacts.mkdir()
    with _quiet():
        client = MlflowClient(tracking_uri=f"sqlite:///{into / 'mlflow.db'}")
        hasten(client._tracking_client.store.engine)
        place = (target / "mlflow-artifacts").as_uri()
        experiment = client.create_experiment(run.paths.run_id, artifact_location=place)
        own = _whole(run)
        top = _begin(client, experiment, own, None)
        _log(client, top, own, [])
        whole = artifacts / top / "artifacts"
        whole.mkdir(parents=True)
        shutil.copyfile(run.paths.workflow, whole / "workflow.yaml")
        keys = [(stage, number) for stage, numbers in reported.items() for number in numbers]
        all_tasks = {**tasks, **{key: None for key in keys if key not in tasks}}
        entries = [*_entries(run, all_tasks)]
        for entry in entries:
            run_id = _begin(client, experiment, entry, top)
            _log(client, run_id, entry, [*_metrics(entry, tasks, reported)])
            _copy(run, [tasks[key] for key in entry.tasks if key in tasks], artifacts / run_id / "artifacts")
            _end(client, run_id, entry)
        _end(client, top, own)
        client._tracking_client.store.engine.dispose()
    trials = sum("trial" in entry.tags for entry in entries)
    rest = counted(len(entries) - trials, "task")
    summary = f"experiment {run.paths.run_id}: {counted(trials, 'trial')} and {rest} outside of trials"
    return [summary, f"its artifacts are read from {target}: it cannot be moved", *left_out(run, tasks)]


def _whole(run: RunReader) -> MlflowRun:
    file, history = run.run_file, run.history
    status = _OF_RUN.get(run.state, _STOPPED)
    about = {"workflow": file.workflow, "source": file.source, "site": file.site, "diel": file.diel}
    tags = {**about, "state": str(run.state)}
    return MlflowRun(file.run, file.hyperparameters, [], file.created, history.ended, status, {}, tags)


def _entries(run: RunReader, tasks: Mapping[Key, TaskOutcome | None]) -> Iterator[MlflowRun]:
    """Yield a run for each trial, with all its tasks, then a run for each other task."""
    by_trial: dict[tuple[str, tuple[int, ...], int], list[Key]] = {}
    rest: list[Key] = []
    axes = searches(run)
    for key in tasks:
        place = run.place(*key)
        label = next((label for label in axes if label in place), None)
        if label is None:
            rest.append(key)
        else:
            by_trial.setdefault((label, axes[label].context(place), place[label]), []).append(key)
    for label, axis in axes.items():
        for trial, course, state, _ in trials_of(run, axis):
            at = {**course.at, label: trial.number}
            word = _OF_TRIAL.get(state, _STOPPED)
            scores = dict(zip((name for name, _ in axis.axis.objectives), trial.values, strict=False))
            tags = {"trial": str(trial.number), "state": state, "message": trial.message}
            mine = by_trial.get((label, course.context, trial.number), [])
            name = ", ".join(f"{label_}={value}" for label_, value in at.items())
            values = {**course.at, **trial.hp}
            yield MlflowRun(name, values, mine, trial.began, trial.ended, word, scores, tags)
    for key in rest:
        task, named = tasks[key], f"{key[0]}/{key[1]}"
        began = run.run_file.created if task is None or task.began is None else task.began
        params = run.point(*key)
        if task is None:
            word = _GOES_ON if run.state is RunState.RUNNING else _STOPPED
            yield MlflowRun(run.named(named), params, [key], began, None, word, {}, {"task": named})
            continue
        word = "FINISHED" if task.state.good else "FAILED" if task.state is TaskState.FAILED else _STOPPED
        tags = {"task": named, "state": task.state.label, "message": task.message}
        yield MlflowRun(run.named(named), params, [key], began, task.ended, word, {}, tags)


def _begin(client: MlflowClient, experiment: str, entry: MlflowRun, parent: str | None) -> str:
    """Begin a run of MLflow's with its name and tags; return its id."""
    tags = {f"diel.{name}": value for name, value in entry.tags.items() if value}
    if parent is not None:
        tags["mlflow.parentRunId"] = parent
    answer = client.create_run(experiment, start_time=_ms(entry.began), run_name=entry.name, tags=tags)
    return str(answer.info.run_id)


def _log(client: MlflowClient, run_id: str, entry: MlflowRun, metrics: list[Metric]) -> None:
    """Log parameters and metrics in as few calls as MLflow takes: each costs some milliseconds."""
    params = [Param(_name(name), _value(value)) for name, value in entry.params.items()]
    while params or metrics:
        client.log_batch(run_id, params=params[:PARAMS], metrics=metrics[: BATCH - PARAMS])
        params, metrics = params[PARAMS:], metrics[BATCH - PARAMS :]


def _end(client: MlflowClient, run_id: str, entry: MlflowRun) -> None:
    if entry.ended is not None and entry.status != _GOES_ON:
        client.set_terminated(run_id, status=entry.status, end_time=_ms(entry.ended))
    else:
        client.update_run(run_id, status=entry.status)


def _metrics(
    entry: MlflowRun,
    tasks: Mapping[Key, TaskOutcome],
    reported: Mapping[str, Mapping[int, Mapping[str, Curve]]],
) -> Iterator[Metric]:
    """Yield curves and values of tasks as STAGE.METRIC, with an index where there are several tasks."""
    per_stage = Counter(stage for stage, _ in entry.tasks)
    for key in entry.tasks:
        stage, number = key
        where = f"/{number}" if per_stage[stage] > 1 else ""
        task = tasks.get(key)
        ended = entry.began if task is None or task.ended is None else task.ended
        last = 0
        for name, curve in reported[stage].get(number, {}).items():
            last = max(last, *curve)
            for step, (value, time) in sorted(curve.items()):
                at = _ms(ended if time is None else time)
                yield Metric(_name(f"{stage}.{name}{where}"), value, at, step)
        for name, value in ({} if task is None else task.outcome.get("values", {})).items():
            if is_finite(value) or name == SIMULATED:  # 0: a model answered
                yield Metric(_name(f"{stage}.{name}{where}/result"), float(value), _ms(ended), last)
    for name, score in entry.scores.items():
        yield Metric(_name(f"objective/{name}"), score, _ms(entry.ended or entry.began), 0)


def _copy(run: RunReader, tasks: Iterable[TaskOutcome], folder: Path) -> None:
    for task in tasks:
        for output, file in task.files(run.paths.root):
            target = folder / task.stage / str(task.number) / output / Path(file).name
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if Path(file).is_dir() else shutil.copyfile
            copy(file, target)


def _name(name: str) -> str:
    return _FORBIDDEN.sub("_", name)[:250]


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _ms(time: float) -> int:
    return round(1000 * time)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what MLflow tells about making its tables."""
    log = logging.getLogger("mlflow")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)
