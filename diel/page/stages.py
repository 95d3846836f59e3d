"""The panel of stages: how far each is, how long its tasks take, what they use of what they have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from diel.digits import grouped_text
from diel.errors import DielError
from diel.page.cores import Cores, task_cores
from diel.page.panel import Bar, Cell, Grid, Part, Text
from diel.page.plot import lasting
from diel.page.seen import Seen
from diel.results.sizing import advise
from diel.states import TaskState
from diel.status.stage import StageStatus, count_text, joined_lines
from diel.values import format_size

_ENDED = (TaskState.DONE, TaskState.CACHED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)
_ORDER = (*_ENDED, TaskState.RUNNING, TaskState.QUEUED)
_FEW = 3
"""Attempts below which there is no rate."""
_MANY = 200_000
"""Attempts of which reading what each used takes seconds."""
_COLUMNS = ("stage", "kind", "tasks", "state", "rate", "mean", "p95", "cores")
_USED = ("cores in use", "most memory")


def parts(seen: Seen) -> Iterator[Part]:
    stages = seen.status.stages
    if not stages:
        yield Text("The run has no stage yet.", "note")
        return
    try:
        cores = task_cores(seen)
    except DielError:
        cores = {}
    rows = [_row(seen, stage, cores) for stage in stages]
    measured = any(stage.usage for stage in stages)
    if measured:
        rows = [[*row, *_used(seen, stage, cores)] for row, stage in zip(rows, stages, strict=True)]
    yield Grid("The stages of the run", (*_COLUMNS, *_USED) if measured else _COLUMNS, rows)
    for line in joined_lines(seen.status.joined):
        yield Text(f"{line}.", "note")
    if not measured and any(stage[TaskState.DONE] for stage in stages):
        yield Text("What its tasks used of processors and memory was not measured.", "note")
    advice = list(_advised(seen)) if measured else []
    if advice:
        yield Grid("What another run could ask for", ("stage", "resources"), advice)
    if measured and _count(seen) > _MANY:
        told = f"`diel explain {seen.paths.run_id} STAGE` says what another run could ask for"
        yield Text(f"{told}: {_count(seen):,} attempts are too many to read for a page.", "note")


def _used(seen: Seen, stage: StageStatus, cores: dict[str, Cores]) -> list[Cell]:
    """The cores that its tasks kept busy of those they had, and the most memory beside what was asked."""
    usage, each = stage.usage, cores.get(stage.name)
    busy: Cell = ""
    if "cpu_seconds" in usage and usage.get("seconds"):
        used, had = usage["cpu_seconds"] / usage["seconds"], each.mean if each else 0
        share = used / had if had else 0.0
        busy = Bar([("running", share)], f"{used:.2g} of {had:.3g} ({share:.0%})" if had else f"{used:.2g}")
    if "memory_bytes" not in usage:
        return [busy, ""]
    most, asked = usage["memory_bytes"], None
    with suppress(DielError, KeyError):
        asked = seen.run.workflow.stages[stage.name].bare.resources.memory
    if not asked:
        return [busy, format_size(most)]
    return [busy, Bar([("running", most / asked)], f"{format_size(most)} of {format_size(asked)}")]


def _count(seen: Seen) -> int:
    return sum(stage.count for stage in seen.timeline.stages.values())


def _advised(seen: Seen) -> Iterator[list[Cell]]:
    """What tasks of a stage should ask for, where that is other than what they ask for."""
    if _count(seen) > _MANY:
        return
    with suppress(DielError):
        for name in filter(seen.timeline.stages.__contains__, seen.run.workflow.stages):
            found = [str(advice) for advice in advise(seen.run, name) if advice.value != advice.asked]
            if found:
                yield [name, "; ".join(found)]


def _row(seen: Seen, stage: StageStatus, cores: dict[str, Cores]) -> list[Cell]:
    times = seen.timeline.stages.get(stage.name)
    rate = None if times is None or times.count < _FEW else times.rate
    late = None if times is None else times.quantile(0.95)
    each = cores.get(stage.name)
    return [
        stage.name,
        stage.kind,
        _tasks(stage),
        _state(stage),
        "" if rate is None else _rate(rate),
        "" if stage.mean_seconds is None else lasting(stage.mean_seconds),
        "" if late is None else lasting(late),
        None if each is None else each.most if each.least == each.most else f"{each.least} to {each.most}",
    ]


def _tasks(stage: StageStatus) -> Bar:
    total = stage.total or 0
    shares = [(state.label, stage[state] / total) for state in _ORDER if total and stage[state]]
    return Bar(shares, f"{stage.good:,} of {'?' if stage.total is None else f'{total:,}'}")


def _state(stage: StageStatus) -> str:
    if stage.void:
        return f"no tasks: {stage.void}"
    if stage.total == 0:
        return "no tasks"
    others = [state for state in (TaskState.RUNNING, *_ENDED[1:]) if stage[state]]
    words = [count_text(state, stage[state], stage.tolerated) for state in others]
    words += [f"stopped: {stage.held[1]}"] if stage.held else []
    whole = stage.total is not None and stage.good == stage.total
    return ", ".join(words) or ("done" if whole else "waiting")


def _rate(rate: float) -> str:
    """`12/s`, or by the minute or hour where that is at least one."""
    unit, size = next((one for one in (("s", 1), ("min", 60)) if rate * one[1] >= 1), ("h", 3600))
    return f"{grouped_text(rate * size, 3)}/{unit}"
