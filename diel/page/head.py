"""The head of a page: how the run stands, how long it took, what it held, how it was asked for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from diel.errors import DielError, counted
from diel.page import cores
from diel.page.graph import waits
from diel.page.panel import Facts, Part, Text
from diel.page.plot import lasting
from diel.page.seen import Seen
from diel.project.run_file import RunFile
from diel.states import RunState, TaskState
from diel.status.run import energy_text
from diel.status.sections import asked_first
from diel.status.stage import tolerated_text
from diel.values import clock

TONES = {RunState.SUCCEEDED: "good", RunState.FAILED: "bad", RunState.INTERRUPTED: "bad"}
_LIKELY = 1.28
"""Standard deviations within which four of five values lie."""


def parts(seen: Seen) -> Iterator[Part]:
    yield Facts(list(_figures(seen)), big=True)
    yield Text(_sentence(seen), TONES.get(seen.status.state, ""))
    if (left := left_text(seen)) is not None:
        yield Text(left)
    yield from (Text(damaged, "bad") for damaged in seen.status.damaged)
    try:
        yield Facts(list(_asked(seen, seen.run.run_file)))
    except DielError as error:
        yield Text(f"How the run was asked for cannot be read: {error}", "note")


def _figures(seen: Seen) -> Iterator[tuple[str, str]]:
    status = seen.status
    yield "state", status.state.value
    yield ("running for" if status.state.live else "took"), lasting(status.elapsed)
    total = "?" if status.total is None else f"{status.total:,}"
    yield "tasks with a result", f"{status.good:,} of {total}"
    if running := status.count(TaskState.RUNNING):
        yield TaskState.RUNNING.label, f"{running:,}"
    if failed := status.count(TaskState.FAILED):
        yield TaskState.FAILED.label, f"{failed:,}{tolerated_text(failed, status.tolerated)}"
    try:
        hours = [one.nodes * (one.ended - one.began) / 3600 for one in cores.held(seen)]
        if hours:
            yield "node-hours", f"{sum(hours):.3g}" if sum(hours) >= 0.001 else "less than 0.001"
    except DielError:
        pass  # the panel of cores says why
    for name, answers in asked_first(status).items():
        if answers.speedup is not None:
            yield f"effective speedup of {name}", f"{answers.speedup:.3g} ×"


def _sentence(seen: Seen) -> str:
    status = seen.status
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


def left_text(seen: Seen) -> str | None:
    """How long a run that goes on still takes, four times out of five; None if that cannot be said.

    From the mean and the scatter of the durations so far, with as many tasks at a time as run now, but not
    less than one task after another of stages that wait for each other. Rounds still to come wait too, and
    are not known to. A stage of which nothing has ended yet is named, and not counted.
    """
    status = seen.status
    slots = status.count(TaskState.RUNNING)
    if status.state is not RunState.RUNNING or not slots:
        return None
    work = scatter = 0.0
    begun: defaultdict[str, float] = defaultdict(float)
    for span in seen.timeline.running(seen.until, live=True):
        begun[span.stage] += span.seconds if span.state == "running" else 0.0
    least, most, unknown = {}, {}, []
    for stage in status.stages:
        times = seen.timeline.stages.get(stage.name)
        left = None if stage.total is None else stage.total - sum(stage[s] for s in TaskState if s.ended)
        if left == 0:
            continue
        if left is None or times is None or times.mean is None:
            unknown.append(stage.name)
            continue
        work += max(0.0, left * times.mean - begun[stage.name])
        scatter += left * times.variance
        least[stage.name] = times.mean if left > stage[TaskState.RUNNING] else 0.0
        most[stage.name] = times.quantile(0.9) or 0.0
    if not most:
        return None
    low = max((work - _LIKELY * math.sqrt(scatter)) / slots, _in_line(seen, least))
    high = max((work + _LIKELY * math.sqrt(scatter)) / slots, _in_line(seen, most))
    rest = f", without {', '.join(unknown)}, of which nothing has ended yet" if unknown else ""
    rests = f"by the times so far, with {counted(slots, 'task')} at a time"
    ends = dict.fromkeys((lasting(low), lasting(high)))
    return f"Time left: {'about ' if len(ends) == 1 else ''}{' to '.join(ends)}, {rests}{rest}."


def _in_line(seen: Seen, times: Mapping[str, float]) -> float:
    """The longest way through stages that wait for each other, with one task of each."""
    found: dict[str, float] = {}
    try:
        graph = seen.run.graph
    except DielError:  # the panel of the graph says why
        return max(times.values())
    before: defaultdict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        if waits(edge):
            before[edge.downstream].append(edge.upstream)
    for name in graph.order:
        found[name] = times.get(name, 0.0) + max((found[one] for one in before[name]), default=0.0)
    return max(found.values())


def _asked(seen: Seen, file: RunFile) -> Iterator[tuple[str, str]]:
    status = seen.status
    yield "command", file.command_line
    yield "began", "" if status.began is None else clock(status.began)
    if not status.state.live and status.ended is not None:
        yield "ended", clock(status.ended)
    yield "site", file.site
    yield "versions", f"diel {file.diel}, Python {file.python}"
    yield "energy", energy_text(status.energy)
    if not seen.public:
        yield "host and user", f"{file.host}, {file.user}"
        yield "directory", str(seen.paths.root)
    if status.uses:
        yield "uses results of", ", ".join(status.uses)
