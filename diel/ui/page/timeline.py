"""The panels over time: what ran where and when below its blocks, and the cores that tasks and run had."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from diel.base.errors import DielError
from diel.observe.results.attempts import asked_in, with_asked
from diel.observe.status.run import is_hopeless
from diel.site.find import read_kept_site
from diel.site.shape import Shape, ask_of, cores_of
from diel.store.timeline import Bins, Span, Timeline
from diel.ui.page.panel import Cell, Facts, Grid, Part, Plot, RunView, Text
from diel.ui.page.plot import LABELS, STATES, Clock, amount, lasting, layer, nominal, stage_colour
from diel.workflow.models.stage import TOGETHER

MOST = 6000
"""Attempts that are drawn one by one; with more, the shares of time that they took."""
ROWS = 48
"""Rows of workers; with more, each is a node."""
BINS = 120
_CROSS = {
    "type": "point",
    "shape": "cross",
    "angle": 45,
    "size": 90,
    "opacity": 1,
    "filled": True,
    "stroke": "white",
    "strokeWidth": 0.8,
}
_DARKER = {"domain": [0, 1], "range": [0.08, 1]}
_TALL, _LOW, _HIGH = 420, 3, 18
"""Pixels of all rows together, and of one at least and at most."""
_NAMES = {"title": None, "minExtent": LABELS, "maxExtent": LABELS, "ticks": False, "domain": False}
_PHASES = {"domain": ["queued", "running"], "range": [STATES["queued"], STATES["running"]]}
_ON = {"condition": {"test": "datum.phase === 'running'", "value": "white"}, "value": "#1b2127"}
_DIM = {"test": "datum.state === 'running' || datum.state === 'lost'", "value": 0.45}
_BAD = ("failed", "lost")
_RED = {"value": STATES["failed"]}


def parts(view: RunView) -> Iterator[Part]:
    timeline = view.timeline
    end = view.until
    running = list(timeline.running(end, live=view.alive))
    count = sum(stage.count for stage in timeline.stages.values()) + len(running)
    if not count:
        return
    clock = Clock.over(timeline.origin or min(span.begin for span in running), end)
    names = view.stages
    if view.readable is not None and view.readable.blocks:
        yield _blocks(view, clock)
    spans = [span for stage in timeline.stages.values() for span in stage.spans] + running
    if count <= MOST and not any(stage.binned for stage in timeline.stages.values()):
        yield _spans(timeline, sorted(spans, key=lambda span: span.begin), clock, names)
    else:
        yield _binned(timeline, clock, names, count)
        worst = sorted(spans, key=lambda span: -span.seconds)[:10]
        rows: list[list[Cell]] = [[s.task, s.attempt, lasting(s.seconds), s.state] for s in worst]
        yield Grid("The longest attempts", ("longest", "attempt", "took", "state"), rows)
    lost = sum(span.state == "lost" for span in running)
    if lost:
        gone = "have no end in the journal: their controller or worker is gone"
        yield Text(f"{lost:,} that began {gone}.", "note")


def rows_of(timeline: Timeline) -> list[str]:
    """Return the name of the row of each lane: a worker of a node, or the node where there are too many."""
    lanes = timeline.lanes
    if len(lanes) > ROWS:
        return [lane.node or "others" for lane in lanes]
    ordinals: Counter[str] = Counter()
    rows = []
    for lane in lanes:
        ordinals[lane.node] += 1
        rows.append(f"{lane.node} · {ordinals[lane.node]}")
    return rows


def _spans(timeline: Timeline, spans: Sequence[Span], clock: Clock, names: Sequence[str]) -> Plot:
    rows = rows_of(timeline)
    values = [
        {
            "row": rows[span.lane],
            "stage": span.stage,
            "task": span.task,
            "from": clock.at(span.begin),
            "to": clock.at(span.end),
            "took": lasting(span.seconds),
            "state": span.state,
        }
        for span in spans
    ]
    common = {"y": _rows(rows), "tooltip": list(map(nominal, ("task", "state", "took", "row")))}
    time = {"x": clock.encoding("from"), "x2": {"field": "to"}}
    bar = {"type": "bar", "height": {"band": 0.8}, "cornerRadius": 1, "minBandSize": _LOW - 1}
    opacity = {"condition": _DIM, "value": 1}
    bars = layer(bar, **common, **time, color=stage_colour(names), opacity=opacity)
    bad = layer(_CROSS, **common, x=clock.encoding("to"), color=_RED)
    bad["transform"] = [{"filter": "datum.state === 'failed' || datum.state === 'lost'"}]
    spec = {"data": {"values": values}, "height": _height(rows), "layer": [bars, bad]}
    table = Grid(
        "Attempts in the order in which they began",
        ("task", "attempt", "where", "began after", "took", "state"),
        [_row(span, rows, clock) for span in spans[:500]],
        more=max(0, len(spans) - 500),
    )
    caption = "Each bar is an attempt of a task, in the row of its worker"
    failed = ", with a cross where one failed or was lost" if any(s.state in _BAD for s in spans) else ""
    return Plot(caption + failed, spec, table)


def _row(span: Span, rows: Sequence[str], clock: Clock) -> list[Any]:
    began = lasting(max(0.0, span.begin - clock.begin))
    return [span.task, span.attempt, rows[span.lane], began, lasting(span.seconds), span.state]


def _rows(rows: Sequence[str]) -> dict[str, Any]:
    """Return the encoding of rows: names where there is room for them."""
    count = len(set(rows))
    labels = _TALL / max(1, count) >= 9
    axis = {**_NAMES, "labels": labels}
    return nominal("row", axis=axis, sort=list(dict.fromkeys(rows)))


def _height(rows: Sequence[str]) -> float:
    count = max(1, len(set(rows)))
    return count * max(_LOW, min(_HIGH, _TALL / count))


def _binned(timeline: Timeline, clock: Clock, names: Sequence[str], count: int) -> Plot:
    """Return by row and bin the stage that took most of the time, and the share of time in use."""
    rows, factor = rows_of(timeline), 1
    while (clock.end - clock.begin) / (timeline.width * factor) > BINS:
        factor *= 2
    wide = timeline.width * factor
    workers = Counter(rows)
    shares: defaultdict[tuple[str, int], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    failed: Counter[tuple[str, int]] = Counter()
    for name, stage in timeline.stages.items():
        for lane, bins in stage.lanes.items():
            for place, seconds in bins.busy.items():
                shares[(rows[lane], place // factor)][name] += seconds / wide / workers[rows[lane]]
            for place, number in bins.failed.items():
                failed[(rows[lane], place // factor)] += number
                shares[(rows[lane], place // factor)][name] += 0.0
    values = [_bin(row, place, by, failed[(row, place)], wide, clock) for (row, place), by in shares.items()]
    share, failures = amount("busy", format=".0%"), amount("failed")
    tooltip = [nominal("row"), nominal("stage", title="mostly"), share, failures]
    common = {"y": _rows(rows), "x": clock.encoding("from"), "tooltip": tooltip}
    busy = amount("busy", scale=_DARKER, legend=None)
    bar = {"type": "bar", "height": {"band": 0.85}}
    bars = layer(bar, **common, x2={"field": "to"}, color=stage_colour(names), opacity=busy)
    bad = {"transform": [{"filter": "datum.failed > 0"}]} | layer(_CROSS, **common, color=_RED)
    spec = {"data": {"values": values}, "height": _height(rows), "layer": [bars, bad]}
    where = "node" if len(timeline.lanes) > ROWS else "worker"
    caption = f"{count:,} attempts: what each {where} mostly did, the darker the busier"
    return Plot(caption, spec, _by_row(timeline, rows))


def _bin(
    row: str, place: int, by: Mapping[str, float], failed: int, wide: float, clock: Clock
) -> dict[str, Any]:
    busy = min(1.0, sum(by.values()))
    begin = clock.begin + place * wide
    return {
        "row": row,
        "from": clock.at(begin),
        "to": clock.at(min(begin + wide, clock.end)),
        "stage": max(by, key=lambda name: by[name]),
        "busy": round(busy, 3),
        "failed": failed,
    }


def _by_row(timeline: Timeline, rows: Sequence[str]) -> Grid:
    totals: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for stage in timeline.stages.values():
        for lane, bins in stage.lanes.items():
            row = totals[rows[lane]]
            row[0] += sum(bins.busy.values())
            row[1] += sum(bins.ended.values())
            row[2] += sum(bins.failed.values())
    cells: list[list[Cell]] = [
        [row, int(good), int(bad), lasting(busy)] for row, (busy, good, bad) in totals.items()
    ]
    return Grid("What each row did", ("where", "ended well", "failed", "busy"), cells)


def _blocks(view: RunView, clock: Clock) -> Plot:
    """Return blocks over time: asked for, waiting in the queue, running, given back or ended."""
    values: list[dict[str, Any]] = []
    rows: list[list[Any]] = []
    names = []
    for block in view.status.blocks:
        name = f"{block['block']} {block['pool']}"
        names.append(name)
        ended = clock.end if block["ended"] is None else block["ended"]
        began = ended if block["began"] is None else block["began"]
        end = _end_of(block)
        base: dict[str, Any] = {"block": name, "end": end, "nodes": block["nodes"], "job": block["job"]}
        base["last"] = block["began"] is None
        queued = {"from": clock.at(block["asked"]), "to": clock.at(began), "phase": "queued"}
        values.append({**base, **queued})
        if block["began"] is not None:
            ran = {"from": clock.at(began), "to": clock.at(ended), "phase": "running", "last": True}
            values.append({**base, **ran})
        waited = lasting(max(0.0, began - block["asked"]))
        ran_for = "" if block["began"] is None else lasting(max(0.0, ended - began))
        rows.append([name, block["job"], block["nodes"], waited, ran_for, end])
    tooltip = list(map(nominal, ("block", "phase", "end", "nodes", "job")))
    common = {"y": nominal("block", axis=_NAMES, sort=names), "tooltip": tooltip}
    time = {"x": clock.encoding("from", title=False), "x2": {"field": "to"}}
    colour = nominal("phase", scale=_PHASES, legend={"title": None})
    bars = layer({"type": "bar", "height": {"band": 0.6}, "cornerRadius": 2}, **common, **time, color=colour)
    last = {"x": clock.encoding("to", title=False), "text": {"field": "end"}}
    word = {"type": "text", "align": "right", "dx": -5, "fontSize": 10}
    words = {"transform": [{"filter": "datum.last"}]} | layer(word, **common, **last, color=_ON)
    spec = {"data": {"values": values}, "height": _height(names), "layer": [bars, words]}
    caption = "The blocks of the scheduler: from the request through the queue to the end"
    columns = ("block", "job", "nodes", "waited", "ran", "end")
    return Plot(caption, spec, Grid("Blocks", columns, rows))


def _end_of(block: Any) -> str:
    if is_hopeless(block):
        return "can never run"
    if block["ended"] is None:
        return str(block["state"])
    return "given back" if block["ending"] else str(block["state"])


MOST_STAGES = 24
BINS_OF_CORES = 160
_OTHERS = "other stages"
_AXIS = {
    "title": "cores",
    "titleX": -36,
    "titleY": 90,
    "titleBaseline": "bottom",
    "minExtent": LABELS,
    "maxExtent": LABELS,
    "tickMinStep": 1,
}


def cores(view: RunView) -> Iterator[Part]:
    timeline = view.timeline
    if not timeline.stages or not timeline.origin:
        return
    task_sizes = task_cores(view)
    held = allotments(view)
    clock = Clock.over(timeline.origin, view.until)
    wide, busy = busy_cores(view, task_sizes)
    busy = _largest(busy)
    used = sum(sum(entry.values()) for entry in busy.values()) * wide
    whole = sum(entry.cores * (entry.ended - entry.began) for entry in held)
    facts = [("cores that tasks had, on the average", f"{used / max(1e-9, clock.end - clock.begin):.3g}")]
    if whole:
        facts += [("cores held", f"{whole / (clock.end - clock.begin):.3g}")]
        facts += [("of what was held", f"{min(1.0, used / whole):.0%}")]
    facts += [("core-hours of tasks", f"{used / 3600:.3g}")]
    yield Facts(facts, big=True)
    yield _plot(clock, wide, busy, held, [*view.stages, *([_OTHERS] if _OTHERS in busy else [])])


def _largest(busy: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    """Return the stages that had the most cores, and the others together: each has a value at any time."""
    if len(busy) <= MOST_STAGES:
        return busy
    order = sorted(busy, key=lambda name: -sum(busy[name].values()))
    rest: Counter[int] = Counter()
    for name in order[MOST_STAGES - 1 :]:
        rest.update(busy[name])
    return {**{name: busy[name] for name in order[: MOST_STAGES - 1]}, _OTHERS: dict(rest)}


def _plot(
    clock: Clock,
    wide: float,
    busy: dict[str, dict[int, float]],
    held: "Sequence[Allotment]",
    stages: Sequence[str],
) -> Plot:
    names = [name for name in stages if name in busy]
    places = range(int((clock.end - clock.begin) / wide) + 1)
    values = [
        {
            "t": clock.at(clock.begin + place * wide),
            "stage": name,
            "cores": round(busy[name].get(place, 0.0), 3),
        }
        for name in names
        for place in places
    ]
    steps = list(steps_of(held, clock.end))
    line = [{"t": max(0.0, clock.at(when)), "held": count} for when, count in steps]
    area = layer(
        {"type": "area", "interpolate": "step-after", "line": False, "opacity": 0.85},
        x=clock.encoding("t"),
        y=amount("cores", stack="zero", axis=_AXIS),
        color=stage_colour(stages, names),
        order=amount("order"),
        tooltip=[nominal("stage"), amount("cores")],
    )
    limit = {"data": {"values": line}} | layer(
        {"type": "line", "interpolate": "step-after", "strokeDash": [5, 3], "color": "#808890"},
        x=clock.encoding("t"),
        y=amount("held", axis=_AXIS),
        tooltip=[amount("held", title="cores held")],
    )
    spec = {"height": 180, "data": {"values": values}, "layer": [area, *([limit] if line else [])]}
    rows: list[list[Cell]] = [
        [f"held: {name}", nodes, number, round((ended - began) * number / 3600, 4)]
        for name, nodes, number, began, ended in held
    ]
    rows += [[name, None, None, round(sum(busy[name].values()) * wide / 3600, 4)] for name in names]
    table = Grid(
        "Core-hours held, and those of tasks by stage", ("what", "nodes", "cores", "core-hours"), rows
    )
    return Plot("Cores that tasks had, by stage, below those that the run held (dashed)", spec, table)


def steps_of(held: "Sequence[Allotment]", end: float) -> Iterator[tuple[float, int]]:
    """Yield when the number of cores that are held changes, and what it is then."""
    changes = [(allotment.began, allotment.cores) for allotment in held]
    changes += [(allotment.ended, -allotment.cores) for allotment in held if allotment.ended < end]
    count = 0
    for when, change in sorted(changes):
        count += change
        yield when, count
    if held:
        yield end, count


class Allotment(NamedTuple):
    """An allocation, or this machine while a controller drove the run."""

    name: str
    nodes: int
    cores: int
    began: float
    ended: float


def task_cores(view: RunView) -> "dict[str, Cores]":
    """Return the cores of a task, by stage; those of a stage that cannot be known are missing."""
    site = read_kept_site(view.paths)
    sizes: dict[str, Cores] = {}
    for name, stage in view.run.workflow.stages.items():
        if not _SIZES.isdisjoint(stage.demand):  # expressions say how many its tasks have
            sizes |= {name: requested} if (requested := requested_cores(view, name)) else {}
            continue
        with suppress(DielError):
            number = ask_of(site, stage).cores
            sizes[name] = Cores(number, number, number)
    return sizes


def allotments(view: RunView) -> list[Allotment]:
    """Return what the run held so far, the oldest first."""
    site, end = read_kept_site(view.paths), view.until
    if not site.scheduled:
        cores = sum(cores_of(pool) for pool in site.pools.values())
        return [Allotment("this machine", 1, cores, *times) for times in _driven(view, end)]
    blocks = []
    for block in view.status.blocks:
        pool = site.pools.get(block["pool"])
        if pool is not None and block["began"] is not None:
            nodes = Shape(**block["needs"]).block_nodes(pool)
            ended = end if block["ended"] is None else block["ended"]
            blocks.append(Allotment(block["block"], nodes, nodes * cores_of(pool), block["began"], ended))
    return blocks


def _driven(view: RunView, end: float) -> Iterator[tuple[float, float]]:
    """Yield when controllers drove the run: the newest until now, each before it to its last sign of life."""
    epochs = [times for _, times in sorted(view.timeline.driven.items())]
    for (began, last), (after, _) in pairwise(epochs):
        yield began, min(last, after)
    yield from ((began, end) for began, _ in epochs[-1:])


def busy_cores(view: RunView, cores: "Mapping[str, Cores]") -> tuple[float, dict[str, dict[int, float]]]:
    """Return the width of a bin in seconds, and the busy cores by stage and bin."""
    timeline, end = view.timeline, view.until
    totals: dict[str, defaultdict[int, float]] = {}
    width, factor = timeline.width, 1
    while (end - timeline.origin) / (width * factor) > BINS_OF_CORES:
        factor *= 2

    def add(name: str, bins: Bins, number: float) -> None:
        into = totals.setdefault(name, defaultdict(float))
        for place, seconds in bins.busy.items():
            into[place // factor] += number * seconds / (width * factor)

    alone = list(timeline.running(end, live=view.alive))
    for name, stage in timeline.stages.items():
        if name in cores and cores[name].own:
            alone += stage.spans
            continue
        for bins in stage.lanes.values():
            add(name, bins, cores[name].mean if name in cores else 1)
    for span in alone:
        bins, origin = Bins(), timeline.origin
        bins.spread(max(0.0, (span.begin - origin) / width), (span.end - origin) / width, width)
        size = cores.get(span.stage, Cores(1, 1, 1))
        add(span.stage, bins, size.own.get((span.index, span.attempt), size.mean))
    return width * factor, {name: dict(places) for name, places in totals.items()}


_SIZES = {("resources", key) for key in (*TOGETHER, "cores_per_rank")}


class Cores(NamedTuple):
    """Cores of a stage's tasks."""

    mean: float
    """Weighted by how long each task had them."""
    least: int
    most: int
    """More than the least only where an expression gives each task its cores."""
    own: Mapping[tuple[int, int], int] = {}
    """Cores of each attempt, by task and number, where they differ and all attempts are kept."""


def requested_cores(view: RunView, name: str) -> Cores | None:
    """Return what the attempts of a stage asked for; None before there is one."""
    times, resources = view.timeline.stages.get(name), view.run.workflow.stages[name].bare.resources
    spans = [] if times is None or times.binned else times.spans
    own, counts = {}, Counter[int]()
    for index, number, request in asked_in(view.run, name):
        wanted_cores = with_asked(resources, request).cores
        counts[wanted_cores] += 1
        if spans:
            own[index, number] = wanted_cores
    if not counts:
        return None
    low, high = min(counts), max(counts)
    had = [(own[at], span.seconds) for span in spans if (at := (span.index, span.attempt)) in own]
    had = had if any(seconds for _, seconds in had) else [*counts.items()]
    mean = sum(wanted_cores * weight for wanted_cores, weight in had) / sum(weight for _, weight in had)
    return Cores(mean, low, high, {} if low == high else own)
