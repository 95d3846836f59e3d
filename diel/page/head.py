"""The first panels of a page: how the run stands and was asked for, and how far each stage is."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress

from diel.errors import DielError, counted
from diel.page.graph import waits
from diel.page.panel import Bar, Cell, Facts, Grid, Part, Text
from diel.page.plot import lasting
from diel.page.run_view import RunView
from diel.page.timeline import Cores, allotments, task_cores
from diel.project.run_file import RunFile
from diel.results.usage import advise
from diel.states import RunState, TaskState
from diel.status.sections import asked_first
from diel.status.stage import StageStatus, count_text, joined_lines, tolerated_text
from diel.values import clock, format_size, grouped_text

TONES = {RunState.SUCCEEDED: "good", RunState.FAILED: "bad", RunState.INTERRUPTED: "bad"}
_LIKELY = 1.28
"""Standard deviations within which four of five values lie."""


def parts(view: RunView) -> Iterator[Part]:
    yield Facts(list(_figures(view)), big=True)
    yield Text(_sentence(view), TONES.get(view.status.state, ""))
    if (remaining := left_text(view)) is not None:
        yield Text(remaining)
    yield from (Text(damaged, "bad") for damaged in view.status.damaged)
    try:
        yield Facts(list(_origin(view, view.run.run_file)))
    except DielError as error:
        yield Text(f"How the run was asked for cannot be read: {error}", "note")


def _figures(view: RunView) -> Iterator[tuple[str, str]]:
    status = view.status
    yield "state", status.state.value
    yield ("running for" if status.state.live else "took"), lasting(status.elapsed)
    yield "tasks with a result", f"{status.good:,} of {status.total_text}"
    if running := status.count(TaskState.RUNNING):
        yield TaskState.RUNNING.label, f"{running:,}"
    if failed := status.count(TaskState.FAILED):
        yield TaskState.FAILED.label, f"{failed:,}{tolerated_text(failed, status.tolerated)}"
    with suppress(DielError):  # the panel of cores says why
        hours = [block.nodes * (block.ended - block.began) / 3600 for block in allotments(view)]
        if hours:
            yield "node-hours", f"{sum(hours):.3g}" if sum(hours) >= 0.001 else "less than 0.001"
    for name, answers in asked_first(status).items():
        if answers.speedup is not None:
            yield f"effective speedup of {name}", f"{answers.speedup:.3g} ×"


def _sentence(view: RunView) -> str:
    status = view.status
    failed = status.count(TaskState.FAILED)
    match status.state:
        case RunState.SUCCEEDED:
            cached, skipped = status.count(TaskState.CACHED), status.count(TaskState.SKIPPED)
            cached -= sum(stage.shared for stage in status.stages)
            words = "All is done"
            words += f"; {cached:,} results are from earlier runs" if cached else ""
            return f"{words}; {counted(skipped, 'task')} skipped." if skipped else f"{words}."
        case RunState.FAILED:
            held = [stage.name for stage in status.stages if stage.held or stage.void]
            why = "It did not come to its end"
            if failed > status.tolerated:
                why = f"{counted(failed, 'task')} failed{tolerated_text(failed, status.tolerated)}"
            return f"{why}; stopped or without tasks: {', '.join(held)}." if held else f"{why}."
        case RunState.INTERRUPTED:
            return "Its controller is gone. What was committed is kept: `diel resume` goes on from there."
        case RunState.CANCELLED:
            return "It was cancelled. What was committed is kept: `diel resume` goes on from there."
        case RunState.PENDING:
            return "Its controller has not begun yet."
    return "It runs: this is how it stood when the page was made."


def left_text(view: RunView) -> str | None:
    """Return how long a run still takes, four times out of five; None where nobody can say.

    From the mean and the scatter of the durations so far, with as many tasks at a time as run now, but not
    less than one task after another of stages that wait for each other. Rounds still to come wait too, and
    are not known to. A stage of which nothing has ended yet is named, and not counted.
    """
    status = view.status
    slots = status.count(TaskState.RUNNING)
    if status.state is not RunState.RUNNING or not slots:
        return None
    work = scatter = 0.0
    begun: defaultdict[str, float] = defaultdict(float)
    for span in view.timeline.running(view.until, live=True):
        begun[span.stage] += span.seconds if span.state == "running" else 0.0
    least, most, unknown = {}, {}, []
    for stage in status.stages:
        times = view.timeline.stages.get(stage.name)
        remaining = None if stage.total is None else stage.total - sum(stage[s] for s in TaskState if s.ended)
        if remaining == 0:
            continue
        if remaining is None or times is None or times.mean is None:
            unknown.append(stage.name)
            continue
        work += max(0.0, remaining * times.mean - begun[stage.name])
        scatter += remaining * times.variance
        least[stage.name] = times.mean if remaining > stage[TaskState.RUNNING] else 0.0
        most[stage.name] = times.quantile(0.9) or 0.0
    if not most:
        return None
    low = max((work - _LIKELY * math.sqrt(scatter)) / slots, _in_line(view, least))
    high = max((work + _LIKELY * math.sqrt(scatter)) / slots, _in_line(view, most))
    rest = f", without {', '.join(unknown)}, of which nothing has ended yet" if unknown else ""
    rests = f"by the times so far, with {counted(slots, 'task')} at a time"
    ends = dict.fromkeys((lasting(low), lasting(high)))
    return f"Time left: {'about ' if len(ends) == 1 else ''}{' to '.join(ends)}, {rests}{rest}."


def _in_line(view: RunView, times: Mapping[str, float]) -> float:
    """Return the longest way through stages that wait for each other, with one task of each."""
    longest: dict[str, float] = {}
    try:
        graph = view.run.graph
    except DielError:  # the panel of the graph says why
        return max(times.values())
    before: defaultdict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        if waits(edge):
            before[edge.downstream].append(edge.upstream)
    for name in graph.order:
        longest[name] = times.get(name, 0.0) + max((longest[up] for up in before[name]), default=0.0)
    return max(longest.values())


def _origin(view: RunView, file: RunFile) -> Iterator[tuple[str, str]]:
    status = view.status
    yield "command", file.command_line
    yield "began", "" if status.began is None else clock(status.began)
    if not status.state.live and status.ended is not None:
        yield "ended", clock(status.ended)
    yield "site", file.site
    yield "versions", f"diel {file.diel}, Python {file.python}"
    yield "energy", status.energy_text
    if not view.public:
        yield "host and user", f"{file.host}, {file.user}"
        yield "directory", str(view.paths.root)
    if status.uses:
        yield "uses results of", ", ".join(status.uses)


_ENDED = (TaskState.DONE, TaskState.CACHED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)
_ORDER = (*_ENDED, TaskState.RUNNING, TaskState.QUEUED)
_FEW = 3
"""Attempts below which there is no rate."""
_MANY = 200_000
"""Attempts of which reading what each used takes seconds."""
_COLUMNS = ("stage", "kind", "tasks", "state", "rate", "mean", "p95", "cores")
_USED = ("cores in use", "most memory")


def stages(view: RunView) -> Iterator[Part]:
    statuses = view.status.stages
    if not statuses:
        yield Text("The run has no stage yet.", "note")
        return
    try:
        sizes = task_cores(view)
    except DielError:
        sizes = {}
    rows = [_row(view, stage, sizes) for stage in statuses]
    measured = any(stage.usage for stage in statuses)
    if measured:
        rows = [[*row, *_used(view, stage, sizes)] for row, stage in zip(rows, statuses, strict=True)]
    yield Grid("The stages of the run", (*_COLUMNS, *_USED) if measured else _COLUMNS, rows)
    for line in joined_lines(view.status.joined):
        yield Text(f"{line}.", "note")
    if not measured and any(stage[TaskState.DONE] for stage in statuses):
        yield Text("What its tasks used of processors and memory was not measured.", "note")
    advice = list(_advised(view)) if measured else []
    if advice:
        yield Grid("What another run could ask for", ("stage", "resources"), advice)
    if measured and _count(view) > _MANY:
        hint = f"`diel explain {view.paths.run_id} STAGE` says what another run could ask for"
        yield Text(f"{hint}: {_count(view):,} attempts are too many to read for a page.", "note")


def _used(view: RunView, stage: StageStatus, had: dict[str, Cores]) -> list[Cell]:
    """Return the cores that tasks kept busy, of those they had, and the most memory, of that asked for."""
    usage, size = stage.usage, had.get(stage.name)
    busy: Cell = ""
    if "cpu_seconds" in usage and usage.get("seconds"):
        used, most = usage["cpu_seconds"] / usage["seconds"], size.mean if size else 0
        share = used / most if most else 0.0
        busy = Bar([("running", share)], f"{used:.2g} of {most:.3g} ({share:.0%})" if most else f"{used:.2g}")
    if "memory_bytes" not in usage:
        return [busy, ""]
    most, memory = usage["memory_bytes"], None
    with suppress(DielError, KeyError):
        memory = view.run.workflow.stages[stage.name].bare.resources.memory
    if not memory:
        return [busy, format_size(most)]
    return [busy, Bar([("running", most / memory)], f"{format_size(most)} of {format_size(memory)}")]


def _count(view: RunView) -> int:
    return sum(stage.count for stage in view.timeline.stages.values())


def _advised(view: RunView) -> Iterator[list[Cell]]:
    """Yield advice on the resources of each stage, where it differs from what tasks ask for."""
    if _count(view) > _MANY:
        return
    with suppress(DielError):
        for name in filter(view.timeline.stages.__contains__, view.run.workflow.stages):
            advices = [str(advice) for advice in advise(view.run, name) if advice.value != advice.asked]
            if advices:
                yield [name, "; ".join(advices)]


def _row(view: RunView, stage: StageStatus, had: dict[str, Cores]) -> list[Cell]:
    times = view.timeline.stages.get(stage.name)
    rate = None if times is None or times.count < _FEW else times.rate
    late = None if times is None else times.quantile(0.95)
    size = had.get(stage.name)
    return [
        stage.name,
        stage.kind,
        _tasks(stage),
        _state(stage),
        "" if rate is None else _rate(rate),
        "" if stage.mean_seconds is None else lasting(stage.mean_seconds),
        "" if late is None else lasting(late),
        None if size is None else size.most if size.least == size.most else f"{size.least} to {size.most}",
    ]


def _tasks(stage: StageStatus) -> Bar:
    shares = [(state.label, stage[state] / stage.total) for state in _ORDER if stage.total and stage[state]]
    return Bar(shares, f"{stage.good:,} of {stage.total_text}")


def _state(stage: StageStatus) -> str:
    if stage.void:
        return f"no tasks: {stage.void}"
    if stage.total == 0:
        return "no tasks"
    states = [state for state in (TaskState.RUNNING, *_ENDED[1:]) if stage[state]]
    words = [count_text(state, stage[state], stage.tolerated) for state in states]
    words += [f"stopped: {stage.held[1]}"] if stage.held else []
    whole = stage.total is not None and stage.good == stage.total
    return ", ".join(words) or ("done" if whole else "waiting")


def _rate(rate: float) -> str:
    """Return `12/s`, or the rate by the minute or hour where that is at least one."""
    unit, size = next((pair for pair in (("s", 1), ("min", 60)) if rate * pair[1] >= 1), ("h", 3600))
    return f"{grouped_text(rate * size, 3)}/{unit}"
