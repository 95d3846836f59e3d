"""What attempts reported, used and asked for, as rows; and what tasks should ask for by that.

What tasks reported while they ran is in the order of tasks, attempts and lines.
"""

import math
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from diel.base.errors import UsageError, counted, did_you_mean
from diel.base.paths import RunPaths
from diel.base.states import FailureClass, TaskState, TrialState
from diel.base.values import format_duration, format_size, is_finite
from diel.observe.results.reader import RunReader
from diel.observe.results.rows import answered_of, picked_tasks, tasks_at
from diel.store.journal.axis_history import Course, Trial
from diel.store.journal.records import Done, Fail
from diel.store.table import Listing, Moment
from diel.tasks.metrics import FILE, Metric, Metrics
from diel.tasks.points.adaptive import SearchAxis
from diel.tasks.results import origin_dirs
from diel.workflow.models import Resources, Stage, never_ends


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
    own = (place for place in _folders(run.paths, stage) if place[0] in indices)
    folders = {place: run.paths.task_dir(stage, *place) for place in own}
    cached = run.history.stage(stage).states.count(TaskState.CACHED)
    for record in run.results(stage, b'"origin"') if cached else ():
        if record["index"] in indices:
            made_in = origin_dirs(record, run.paths.root.parent)
            folders.update({(record["index"], attempt): folder for attempt, folder in made_in})
    for index, attempt in sorted(folders):
        for metric in Metrics(folders[index, attempt] / FILE).all():
            yield index, attempt, metric


def _folders(paths: RunPaths, stage: str) -> Iterator[tuple[int, int]]:
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
    views = [course for status in run.axes if status.label == axis.label for course in status.courses]
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


Attempt = tuple[Done | Fail, Resources]
"""How an attempt ended, and what it had asked for."""

MEASURED = (
    *("cpu_seconds", "system_seconds", "memory_bytes", "read_bytes", "written_bytes"),
    *("gpu_seconds", "gpu_memory_bytes"),
)


def list_usage(
    run: RunReader, stages: Sequence[str] = (), limit: int | None = None, at: Mapping[str, Any] | None = None
) -> Listing:
    """Return a row for each ended attempt of the stages, in order: its point, how it ended, what it used.
    `at` has values of axis parameters, of one stage. A cell is empty where nothing was measured, and where
    the kernel only knows a bound. Raise UsageError for a stage or point that is not there."""
    for stage in stages:
        run.check_stage(stage)
    chosen = list(stages) or list(run.workflow.stages)
    parameters = list(dict.fromkeys(name for stage in chosen for name in run.parameters(stage)))
    gpus = any("gpu_seconds" in run.history.stage(stage).usage for stage in chosen)
    measured = MEASURED if gpus else MEASURED[:-2]
    rows: list[tuple[Any, ...]] = []
    notes = {}
    for stage in chosen:
        indices = set(tasks_at(run, stage, range(run.history.stage(stage).total), at)) if at else None
        bare = 0
        ends = {(record["index"], record["attempt"]): record for record in ended(run, stage)}
        for index, attempt in sorted(ends):
            if indices is not None and index not in indices:
                continue
            record = ends[index, attempt]
            bare += "usage" not in record
            if limit is None or len(rows) < limit:
                point = run.point(stage, index)
                rows.append((f"{stage}/{index}", *map(point.get, parameters), *_cells(record, measured)))
        if bare:
            notes[stage] = f"nothing was measured of {counted(bare, 'attempt')} of '{stage}'"
        if cached := run.history.stage(stage).counts()["cached"]:
            note = f"{counted(cached, 'task')} of '{stage}' came from the cache: its run has what they used"
            notes[stage] = "; ".join(filter(None, (notes.get(stage, ""), note)))
    return Listing(("task", *parameters, "attempt", "state", "seconds", *measured), rows, notes)


def ended(run: RunReader, stage: str, most: int | None = None) -> Iterator[Done | Fail]:
    """Yield the ends of a stage's attempts, as their workers wrote them; at most so many, spread evenly."""
    every = 1 if most is None else 1 + run.history.stage(stage).timed // most
    for event, step in ((b'"event":"done"', every), (b'"event":"fail"', 1)):
        for _, record in run.events(event, stage=stage, every=step):
            if (record["event"] == "done" or record["event"] == "fail") and record["stage"] == stage:
                yield record


def _cells(record: Done | Fail, measured: Sequence[str]) -> list[Any]:
    usage: dict[str, Any] = {**record.get("usage", {})}
    if usage.get("memory_at_most"):
        del usage["memory_bytes"]
    state = "done" if record["event"] == "done" else record["class"]
    return [record["attempt"], state, record.get("seconds"), *map(usage.get, measured)]


def asked_in(run: RunReader, stage: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the attempts of a stage: task, number, and what it asked for, in bytes and seconds."""
    needles = (b'"event":"queued"', b'"asked":')
    for _, record in run.events(*needles, stage=stage) if run.workflow.stages[stage].demand else ():
        if record["event"] == "queued" and record["stage"] == stage:
            numbers = record.get("attempts") or [1] * len(record["tasks"])
            for index, number in zip(record["tasks"], numbers, strict=True):
                yield index, number, record["asked"]


def with_asked(resources: Resources, own: Mapping[str, Any]) -> Resources:
    """Return the resources of a stage, with what an attempt asked for."""
    return resources.model_copy(update={key: own[key] for key in own if key in type(resources).model_fields})


MOST = 20_000
FEW = 20
"""With fewer the margin is larger."""
SHARE = 0.99
"""The quantile on which advice rests: whatever needs more is tried again with twice as much."""
MARGINS = {"memory": (1.25, 1.5), "walltime": (1.5, 2.0)}
"""Factors beyond the quantile: with many tasks, with few. Times depend on the node and on what else runs."""
BESIDE = 64 << 20
"""Bytes that a node has to have beside a task's processes."""
EACH = 16 << 20
"""The same for each rank: what starts it, and counts it."""
LONG = 1.0
"""Seconds of a task whose use of cores says something: before, a program is being loaded."""
SLACK = 0.1
"""A part of a core that is no reason to ask for another one."""
OUT_OF = {"memory": (FailureClass.OOM,), "walltime": (FailureClass.WALLTIME,), "cores_per_rank": ()}
"""Failures of those that had too little."""


class Advice(NamedTuple):
    """What to ask for."""

    key: str
    value: int | float
    """Bytes, seconds or cores."""
    asked: int | float | None
    used: float
    """The quantile on which it rests."""
    quantile: str
    """`p99`, or `most`."""
    tasks: int
    most: float
    """What the task used that used most."""
    short: int
    """Attempts that ran out of it."""
    lost: int
    """Tasks of these that never ended well: nobody knows what they would have used."""
    bound: bool = False
    """Whether the use is only a bound: no task used more."""

    def __str__(self) -> str:
        """Return `memory: 512 MiB, not 2.0 GiB (the most of 12 tasks used 310 MiB)`."""
        request = "" if self.asked in (None, self.value) else f", not {self._in_words(self.asked or 0)}"
        whose = "the most of" if self.quantile == "most" else f"{self.quantile} of"
        bound = "at most " if self.bound else ""
        basis = f"{whose} {counted(self.tasks, 'task')}: {bound}{self._in_words(self.used)}"
        if self.most > 2 * self.used:
            basis += f", but one used {self._in_words(self.most)}"
        if self.short:
            basis += f"; {self.short:,} ran out of {self.key}"
        if self.lost:
            basis += ", and a task that never ended well counts for twice what it had"
        return f"{self.key}: {self._in_words(self.value)}{request} ({basis})"

    def _in_words(self, value: float) -> str:
        if self.key == "memory":
            return format_size(value)
        return format_duration(value) if self.key == "walltime" else f"{value:.2g}"


def advise(run: RunReader, stage: str) -> list[Advice]:
    """Return what tasks of a stage should ask for; nothing where nothing was measured. What an expression
    says for each task is left alone, and so is what stays up until it is stopped."""
    spec = run.workflow.stages[stage]
    if never_ends(spec):
        return []
    attempts = list(_attempts(run, stage))
    advices = (_advice(spec, key, attempts) for key in OUT_OF if ("resources", key) not in spec.demand)
    return [advice for advice in advices if advice is not None]


def sizes_by(run: RunReader) -> dict[str, dict[str, int | float]]:
    """Return what all stages of a run should ask for, by stage and key."""
    advice = {name: {size.key: size.value for size in advise(run, name)} for name in run.workflow.stages}
    return {name: sizes for name, sizes in advice.items() if sizes}


def _attempts(run: RunReader, stage: str) -> Iterator[Attempt]:
    resources = run.workflow.stages[stage].bare.resources
    own = {(index, number): request for index, number, request in asked_in(run, stage)}
    for record in ended(run, stage, MOST):
        request = own.get((record["index"], record["attempt"]))
        yield record, with_asked(resources, request) if request else resources


def _advice(spec: Stage, key: str, attempts: Sequence[Attempt]) -> Advice | None:
    limit = getattr(spec.bare.resources, key)
    used = sorted(_used(key, attempts))
    done = {record["index"] for record, _ in attempts if record["event"] == "done"}
    short = [end for end in attempts if end[0]["event"] == "fail" and end[0]["class"] in OUT_OF[key]]
    lost = [end for end in short if end[0]["index"] not in done]
    never = len({record["index"] for record, _ in lost})
    if lost:
        had = max([limit or 0, *used[-1:], *(_had(key, *end) for end in lost)])
        used += [2 * had] * never if had else []
    if not used:
        return None
    place = math.ceil(SHARE * len(used)) - 1
    ranks = max(math.ceil(resources.processes / _nodes(resources)) for _, resources in attempts)
    value = _rounded(spec, key, used[place], len(used), ranks)
    quantile = "most" if place == len(used) - 1 else f"p{SHARE * 100:.0f}"
    bound = key == "memory" and used[place] in {
        usage["memory_bytes"] / _nodes(resources)
        for record, resources in attempts
        if (usage := record.get("usage", {})).get("memory_at_most")
    }
    return Advice(key, value, limit, used[place], quantile, len(used), used[-1], len(short), never, bound)


def _used(key: str, attempts: Sequence[Attempt]) -> Iterator[float]:
    """Yield what each task used that was computed and ended well."""
    for record, resources in attempts:
        if record["event"] != "done" or record.get("surrogate", {}).get("used"):
            continue
        usage, seconds = record.get("usage"), record["seconds"]
        if key == "walltime":
            yield seconds
        elif usage is None:
            continue
        elif key == "memory" and "memory_bytes" in usage:
            yield usage["memory_bytes"] / _nodes(resources)
        elif key == "cores_per_rank" and seconds >= LONG:
            yield usage["cpu_seconds"] / seconds / resources.processes


def _had(key: str, record: Done | Fail, resources: Resources) -> float:
    if key == "walltime":
        return record["seconds"]
    return record.get("usage", {}).get("memory_bytes", 0) / _nodes(resources)


def _nodes(resources: Resources) -> int:
    spread = resources.processes // resources.ranks_per_node if resources.ranks_per_node else 1
    return max(1, resources.nodes or spread)


def _rounded(spec: Stage, key: str, used: float, tasks: int, ranks: int) -> int | float:
    """Round up a request. `ranks` is the most ranks of a task on a node."""
    if key == "cores_per_rank":
        return max(1, math.ceil(used - SLACK))
    enough = used * MARGINS[key][tasks < FEW]
    if key == "walltime":
        step = 60.0 if enough < 3600 else 300.0
        return max(1, math.ceil(enough / step)) * step
    own = BESIDE if spec.module is None else 2 * BESIDE  # a function's worker counts as well
    enough += own + EACH * ranks
    unit = 64 << 20 if enough < 1 << 30 else 256 << 20 if enough < 1 << 33 else 1 << 30
    return math.ceil(enough / unit) * unit
