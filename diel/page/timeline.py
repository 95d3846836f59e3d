"""The panel of the timeline: what ran where and when, with the blocks above it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diel.page.panel import Cell, Grid, Part, Plot, Text
from diel.page.plot import LABELS, STATES, Clock, amount, lasting, layer, nominal, stage_colour
from diel.page.run_view import RunView
from diel.status.blocks import is_hopeless
from diel.timeline import Span, Timeline

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


def rows_of(timeline: Timeline, most: int) -> list[str]:
    """Return the name of the row of each lane: a worker of a node, or the node where there are too many."""
    lanes = timeline.lanes
    if len(lanes) > most:
        return [lane.node or "others" for lane in lanes]
    ordinals: Counter[str] = Counter()
    rows = []
    for lane in lanes:
        ordinals[lane.node] += 1
        rows.append(f"{lane.node} · {ordinals[lane.node]}")
    return rows


def _spans(timeline: Timeline, spans: Sequence[Span], clock: Clock, names: Sequence[str]) -> Plot:
    rows = rows_of(timeline, ROWS)
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
    rows, factor = rows_of(timeline, ROWS), 1
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
    return Plot(caption, spec, _by_row(timeline, rows, clock))


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


def _by_row(timeline: Timeline, rows: Sequence[str], clock: Clock) -> Grid:
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
