"""The first panels of a page: how the run stands and was asked for, how far each stage is, and the graph:
stages by their state, and how data moves between them."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from diel.base.errors import DielError, counted
from diel.base.states import RunState, TaskState
from diel.base.values import clock, format_size, grouped_text
from diel.observe.results.attempts import advise
from diel.observe.status.sections import asked_first
from diel.observe.status.stage import StageStatus, count_text, joined_lines, tolerated_text
from diel.store.project.run_file import RunFile
from diel.ui.page.panel import Bar, Cell, Facts, Grid, Part, RunView, Sketch, Text
from diel.ui.page.plot import lasting
from diel.ui.page.timeline import Cores, allotments, task_cores
from diel.workflow.drawing import rule_words
from diel.workflow.graph import Edge

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


WIDE, HIGH, GAP, ROW, EDGE = 172, 52, 78, 78, 14
"""Pixels: a stage, the gap between layers, a row, the margin."""
WIDEST = 1500
STAGES, LINES = 200, 600
"""The most that are drawn."""
_RANKS = {"gather": 0, "match": 1, "broadcast": 2, "order": 9}
"""From the kind that says most about how much data comes together."""
_FLAGS = ("share", "optional", "renewed", "begun", "outer", "branch")
"""What an edge says besides: its other flags are the ways of data that moves while tasks run."""


def drawn_graph(view: RunView) -> Iterator[Part]:
    graph = view.run.graph
    rows = [
        [link.upstream, link.downstream, link.output or "", kind_of(link), rule_words(graph, link)]
        for link in graph.edges[:LINES]
    ]
    more = max(0, len(graph.edges) - LINES)
    table = Grid("What stages read of others", ("from", "to", "output", "kind", "rule"), rows, more)
    if more or len(graph.order) > STAGES:
        many = (
            f"{len(graph.order):,} stages with {len(graph.edges):,} lines between them are too many to draw"
        )
        yield Text(f"{many}: `diel graph` prints them.", "note")
        yield table
        return
    stages = {stage.name: stage for stage in view.status.stages}
    pairs = dict.fromkeys((edge.upstream, edge.downstream) for edge in graph.edges)
    depth = {name: graph.depth[name] for name in graph.order}
    # Edges that read the previous round lead back.
    layout = lay_out(depth, [(up, down) for up, down in pairs if depth[up] < depth[down]])
    kinds = _kinds(graph.edges)
    used = sorted(set(kinds.values()), key=_rank)
    svg = _svg(layout, stages, kinds, used, view.status.state.live)
    yield Sketch("Stages, coloured by state; lines by the way that data takes", svg, table)


def kind_of(edge: Edge) -> str:
    flags = [name for name in edge._fields if getattr(edge, name) is True and name not in _FLAGS]
    if flags:
        return flags[0]
    if edge.output is None and edge.hyperparameter is None:
        return "order"
    return (
        "gather" if edge.gathered else "match" if edge.matched or edge.picked or edge.chosen else "broadcast"
    )


def waits(edge: Edge) -> bool:
    """Return whether a downstream task begins when its upstream ones have ended, in the same round."""
    return kind_of(edge) in _RANKS and not edge.follows


def _rank(kind: str) -> int:
    return _RANKS.get(kind, 5)


def _kinds(edges: Sequence[Edge]) -> dict[tuple[str, str], str]:
    kinds: dict[tuple[str, str], str] = {}
    for edge in edges:
        pair, kind = (edge.upstream, edge.downstream), kind_of(edge)
        kinds[pair] = min(kinds.get(pair, kind), kind, key=_rank)
    return kinds


def _svg(
    layout: "Layout",
    stages: Mapping[str, StageStatus],
    kinds: Mapping[tuple[str, str], str],
    used: Sequence[str],
    live: bool,
) -> str:
    back = [pair for pair in kinds if pair not in layout.edges and {*pair} <= {*layout.stages}]
    legend = 34 if used else 0
    wide = 2 * EDGE + layout.layers * (WIDE + GAP) - GAP
    wide = max(wide, 2 * EDGE + 120 * len(used))
    high = 2 * EDGE + layout.rows * ROW - (ROW - HIGH) + legend + (26 if back else 0)
    lines = [_edge(layout.edges[pair], kinds[pair], pair) for pair in layout.edges]
    lines += [_back(layout, pair, kinds[pair], high - legend - EDGE) for pair in back]
    nodes = [_node(stages.get(name), name, place, live) for name, place in layout.stages.items()]
    keys = [_key(kind, EDGE + 120 * n, high - 16) for n, kind in enumerate(used)]
    names = ", ".join(layout.stages)
    scrolls = ' class="wide"' if wide > WIDEST else ""  # instead of being made small
    head = f'<svg{scrolls} viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}" role="img"'
    return f'{head} aria-label="Graph of the stages {escape(names)}">{"".join((*lines, *nodes, *keys))}</svg>'


def _x(place: "Spot") -> float:
    return EDGE + place.layer * (WIDE + GAP)


def _y(place: "Spot") -> float:
    return EDGE + place.row * ROW + HIGH / 2


def _edge(chain: "Sequence[Spot]", kind: str, pair: tuple[str, str]) -> str:
    points = [(_x(chain[0]) + WIDE, _y(chain[0]))]
    for place in chain[1:-1]:
        points += [(_x(place), _y(place)), (_x(place) + WIDE, _y(place))]
    points.append((_x(chain[-1]) - 7, _y(chain[-1])))
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x, y), (to_x, to_y) in pairwise(points):
        half = (x + to_x) / 2
        path += f"C{half:g} {y:g} {half:g} {to_y:g} {to_x:g} {to_y:g}"
    head = f"M{points[-1][0] - 1:g} {points[-1][1] - 4:g}l8 4 -8 4z"
    return _arrow(path, head, kind, f"{pair[1]} reads {pair[0]}: {kind}")


def _back(layout: "Layout", pair: tuple[str, str], kind: str, low: float) -> str:
    up, down = layout.stages[pair[0]], layout.stages[pair[1]]
    x, y, to_x, to_y = _x(up) + WIDE / 2, _y(up) + HIGH / 2, _x(down) + WIDE / 2 - 24, _y(down) + HIGH / 2
    if pair[0] == pair[1]:
        x += 24
    path = f"M{x:g} {y:g}C{x:g} {low:g} {to_x:g} {low:g} {to_x:g} {to_y + 7:g}"
    head = f"M{to_x - 4:g} {to_y + 8:g}l4 -8 4 8z"
    return _arrow(path, head, kind, f"{pair[1]} reads the previous round of {pair[0]}")


def _arrow(path: str, head: str, kind: str, title: str) -> str:
    line = f'<path class="{kind}" d="{path}"></path><path class="head" d="{head}"></path>'
    return f'<g class="edge"><title>{escape(title)}</title>{line}</g>'


def _node(stage: StageStatus | None, name: str, place: "Spot", live: bool) -> str:
    state = state_of(stage, live=live)
    x, y = _x(place), _y(place) - HIGH / 2
    total = "?" if stage is None else stage.total_text
    done = "0" if stage is None else f"{stage.good:,}"
    done = done if done == total else f"{done} of {total}"
    title = f"<title>{escape(name)}: {state}, {done} tasks with a result</title>"
    share = 0.0 if stage is None or not stage.total else stage.good / stage.total
    short = name if len(name) <= 18 else f"{name[:9]}…{name[-8:]}"
    long = (WIDE - 24) * share
    return (
        f'<g class="node s-{state}">{title}'
        f'<rect x="{x:g}" y="{y:g}" width="{WIDE}" height="{HIGH}" rx="7"></rect>'
        f'<path class="mark" d="M{x + 12:g} {y + HIGH - 9:g}h{long:.1f}v3h-{long:.1f}z"></path>'
        f'<text x="{x + 12:g}" y="{y + 20:g}">{escape(short)}</text>'
        f'<text class="sub" x="{x + 12:g}" y="{y + 35:g}">{escape(f"{state} · {done}")}</text></g>'
    )


def _key(kind: str, x: float, y: float) -> str:
    return (
        f'<g class="edge"><path class="{kind}" d="M{x:g} {y:g}h34"></path>'
        f'<text x="{x + 42:g}" y="{y + 4:g}">{kind}</text></g>'
    )


def state_of(stage: StageStatus | None, *, live: bool = True) -> str:
    """Return the state of a stage, by those of its tasks."""
    if stage is None or stage.total is None:
        return "skipped" if stage is not None and stage.void else "waiting"
    if stage[TaskState.FAILED] > stage.tolerated:
        return "failed"
    if stage[TaskState.RUNNING] or stage[TaskState.QUEUED]:
        return "running"
    if not stage.total and not live:
        return "skipped"
    left_out = stage[TaskState.SKIPPED] + stage[TaskState.CANCELLED]
    if not stage.total or stage.good + left_out + stage.tolerated < stage.total:
        return "running" if stage.good and live else "waiting"
    if stage.good and not stage[TaskState.CANCELLED] and not stage.hindered:
        return "cached" if stage[TaskState.CACHED] == stage.good else "done"
    return "cancelled" if stage[TaskState.CANCELLED] else "skipped" if left_out else "failed"


SWEEPS = 6


class Spot(NamedTuple):
    """A place in a layer; of a stage, or of an edge that passes."""

    layer: int
    row: float


class Layout(NamedTuple):
    """Where stages stand, and through what the edges go; rows count from 0, fractions between them."""

    stages: Mapping[str, Spot]
    edges: Mapping[tuple[str, str], Sequence[Spot]]
    layers: int
    rows: float


def lay_out(depth: Mapping[str, int], edges: Sequence[tuple[str, str]]) -> Layout:
    """Return places for stages of these depths, and for the edges that lead to a deeper stage."""
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, layer in depth.items():
        layers[layer].append(name)
    chains: dict[tuple[str, str], list[str]] = {}
    near: defaultdict[str, list[str]] = defaultdict(list)
    for up, down in edges:
        passed = [f"{up}\0{down}\0{layer}" for layer in range(depth[up] + 1, depth[down])]
        chain = [up, *passed, down]
        for place, dummy in enumerate(passed, depth[up] + 1):
            layers[place].append(dummy)
        for upper, other in pairwise(chain):
            near[upper].append(other)
            near[other].append(upper)
        chains[(up, down)] = chain
    rows = _rows(layers, near)
    placed = {name: Spot(layer, rows[name]) for layer, names in enumerate(layers) for name in names}
    return Layout(
        {name: placed[name] for name in depth},
        {edge: [placed[name] for name in chain] for edge, chain in chains.items()},
        len(layers),
        max(rows.values(), default=0.0) + 1,
    )


def _rows(layers: list[list[str]], near: Mapping[str, list[str]]) -> dict[str, float]:
    """Return the row of each: ordered by sweeps, then each layer in the middle of the widest."""
    order = {name: float(row) for names in layers for row, name in enumerate(names)}
    for sweep in range(SWEEPS):
        for names in layers if sweep % 2 == 0 else reversed(layers):
            mean = {
                name: fmean([order[other] for other in near.get(name, ())] or [order[name]]) for name in names
            }
            names.sort(key=lambda name: mean[name])
            order.update({name: float(row) for row, name in enumerate(names)})
    widest = max((len(names) for names in layers), default=0)
    return {name: row + (widest - len(names)) / 2 for names in layers for row, name in enumerate(names)}
