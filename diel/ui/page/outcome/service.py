"""The panels of what tasks ask and stream: services, by their /metrics, surrogates, and streams."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from diel.base.values import format_size
from diel.observe.results import RunReader
from diel.observe.status.run import ReplicaStatus
from diel.observe.status.surrogate import answered_text, audit_texts, stays_lines, terms, trouble
from diel.streams.services.endpoint import counts_file
from diel.ui.page.panel import Cell, Grid, Part, Plot, RunView, Text
from diel.ui.page.plot import SERIES, Column, figure, layer, tips

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_BOUND = re.compile(r'le="([^"]+)"')
Counts = Mapping[tuple[str, str], float]
"""Prometheus' samples: by name and labels."""
_MOST = 50


def parts(view: RunView) -> Iterator[Part]:
    replicas = [replica for service in view.status.services for replica in service.replicas]
    if not replicas:
        return
    counts = {replica.task: _read(view, replica.task) for replica in replicas}
    rows = [_row(view, replica, counts[replica.task]) for replica in replicas]
    counted = ("requests", "refused", "a second", "p99", "rows a batch")
    heads = ("replica", "state", "restarts", *counted, "message")
    yield Grid("Replicas of services, and what they counted", heads, rows)
    if not all(counts.values()):
        why = "they have no page /metrics, or ended before it was read"
        yield Text(f"Requests of some replicas are not measured: {why}.", "note")
    for service in view.status.services:
        sizes = [counts[replica.task] for replica in service.replicas]
        buckets = _buckets(sizes, "diel_batch_rows")
        if sum(count > 0 for _, count in buckets) > 1:
            yield _batches(service.name, buckets)


def _read(view: RunView, task: str) -> Counts:
    stage, _, index = task.rpartition("/")
    try:
        text = counts_file(view.paths, stage, int(index)).read_text("utf-8", "replace")
    except OSError:
        return {}
    counts: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            with suppress(ValueError):
                counts[match[1], match[2] or ""] = float(match[3])
    return counts


def _row(view: RunView, replica: ReplicaStatus, counts: Counts) -> list[Cell]:
    codes = {
        labels: number
        for (name, labels), number in counts.items()
        if name == "diel_requests_total" and 'path="/metrics"' not in labels
    }
    requests = sum(codes.values())
    refused = sum(number for labels, number in codes.items() if not re.search(r'code="[23]', labels))
    batches, rows = counts.get(("diel_batch_rows_count", ""), 0), counts.get(("diel_batch_rows_sum", ""), 0)
    seconds = _up(view, replica.task)
    slow = _quantile(_buckets([counts], "diel_request_seconds"), 0.99)
    return [
        replica.task,
        replica.state,
        replica.restarts,
        int(requests) if counts else None,
        int(refused) if counts else None,
        round(requests / seconds, 2) if counts and seconds else None,
        f"at most {1000 * slow:g} ms" if slow is not None else None,
        round(rows / batches, 1) if batches else None,
        replica.message,
    ]


def _up(view: RunView, task: str) -> float | None:
    """Return seconds for which a replica was ready, in all its starts; None if that is not in the journal."""
    stage, _, index = task.rpartition("/")
    ready, total = None, 0.0
    for _, record in view.run.attempts(stage, int(index)):
        if record["event"] == "service" and record["state"] == "ready":
            ready = ready or record["time"]
        elif record["event"] == "service" and record["state"] != "reloaded" and ready is not None:
            total, ready = total + record["time"] - ready, None
    return total + (view.status.now - ready if ready is not None else 0.0) or None


def _buckets(counts: Sequence[Counts], name: str) -> list[tuple[float, float]]:
    """Return how many of all replicas were at most as large as each bound, and larger than the one before."""
    below: dict[float, float] = {}
    for replica in counts:
        for (sample, labels), number in replica.items():
            bound = _BOUND.search(labels)
            if sample == f"{name}_bucket" and bound is not None:
                below[float(bound[1])] = below.get(float(bound[1]), 0.0) + number
    ends = sorted(below)
    return [(end, below[end] - (below[ends[n - 1]] if n else 0.0)) for n, end in enumerate(ends)]


def _quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return the bound below which this share lies; None if there are none, or it is beyond all bounds."""
    target, passed = share * sum(count for _, count in buckets), 0.0
    for bound, count in buckets:
        passed += count
        if target and passed >= target:
            return bound if bound != float("inf") else None
    return None


def _batches(service: str, buckets: Sequence[tuple[float, float]]) -> Plot:
    size, many = Column("size", "rows in a batch, at most", "name"), Column("batches", "batches", "number")
    rows = [{"size": "more" if end == float("inf") else f"{end:g}", "batches": int(n)} for end, n in buckets]
    while rows and not rows[-1]["batches"]:
        rows.pop()
    bars = layer("bar", x=size.axis(axis={"labelAngle": 0}), y=many.axis(), tooltip=tips([size, many]))
    caption = f"{service}: sizes of the batches that it evaluated in one call"
    return figure(caption, [size, many], rows, bars, height=180)


def streams(view: RunView) -> Iterator[Part]:
    channels = view.status.streams
    if not channels:
        return
    rows = [_channel(view, name, facts) for name, facts in [*channels.items()][:_MOST]]
    heads = ("stream", "state", "items", "bytes", "items a second", "buffer", "producers")
    yield Grid("Streams, as their broker last reported them", heads, rows, max(0, len(channels) - _MOST))
    groups = [(name, *item) for name, facts in channels.items() for item in facts.get("groups", {}).items()]
    if groups:
        counts = ("delivered", "committed", "waiting")
        cells: list[list[Cell]] = [
            [name, group, *(int(now.get(n, 0)) for n in counts), "settled" if now.get("settled") else "reads"]
            for name, group, now in groups[:_MOST]
        ]
        names = ("stream", "readers", "given", "committed", "lag (items)", "state")
        yield Grid("Their readers: items that were put and not yet given are their lag", names, cells)
    if any(row[4] is None for row in rows):
        yield Text("A rate is measured once all producers of a stream have ended.", "note")


def _channel(view: RunView, name: str, facts: Mapping[str, Any]) -> list[Cell]:
    broken = facts.get("broken")
    state = f"broken: {broken}" if broken else "complete" if facts.get("closed") else "open"
    producers, items = facts.get("producers", {}), int(facts.get("items", 0))
    seconds = _seconds(view, producers) if facts.get("closed") else None
    rate = None if not seconds else round(items / seconds, 3)
    size = format_size(int(facts.get("bytes", 0)))
    return [name, state, items, size, rate, int(facts.get("buffer") or 0) or None, len(producers)]


def _seconds(view: RunView, producers: Mapping[str, Any]) -> float | None:
    """Return seconds from the first producer's begin to the last one's end; None if a result is missing."""
    begins, ends = [], []
    for stage in dict.fromkeys(task.partition("/")[0] for task in producers):
        for record in view.run.results(stage):
            if record["event"] == "done" and f"{stage}/{record['index']}" in producers:
                begins.append(record["time"] - record.get("seconds", 0.0))
                ends.append(record["time"])
    return max(ends) - min(begins) if ends and len(ends) >= len(producers) else None


BINS = 20
"""Parts of the tasks, in their order, where no loop divides them."""
_HOW = {"answered": SERIES[4], "simulated": SERIES[1]}


def surrogates(view: RunView) -> Iterator[Part]:
    by_stage = {stage.name: stage.surrogate for stage in view.status.stages if stage.surrogate is not None}
    for name, surrogate in by_stage.items():
        yield Text(f"{name}: {answered_text(surrogate)}.")
        doubted = surrogate.audit is not None and surrogate.audit.is_off
        for text in audit_texts(surrogate):
            yield Text(f"{name}: {text}.", "bad" if doubted else "")
        if wrong := trouble(surrogate):
            yield Text(f"{name}: {wrong}", "bad")
        yield from _shares(view.run, name)
    for text in stays_lines({stage.name: stage.stays for stage in view.status.stages}):
        yield Text(text, "bad")
    if by_stage:
        heads = ["stage", *terms(next(iter(by_stage.values())))]
        rows = [[name, *terms(status).values()] for name, status in by_stage.items()]
        yield Grid("The measured terms of the effective speedup", heads, rows)


def _shares(run: RunReader, stage: str) -> Iterator[Part]:
    """Yield how many tasks were answered and how many were simulated, in each round or part of the stage."""
    domain = run.domain(stage)
    if domain is None:
        return
    loop = next((axis for axis in domain.axes if axis in run.adaptive), "")
    size = -(-domain.size // BINS)
    counts: dict[int, list[int]] = {}
    for record in run.results(stage, b'"surrogate"'):
        place = domain.coordinates(record["index"])[loop] if loop else record["index"] // size * size
        counts.setdefault(place, [0, 0])["surrogate" in record and not record["surrogate"]["used"]] += 1
    if len(counts) < 2:
        return
    rows = [
        {"at": at, "how": how, "tasks": number, "share": round(number / sum(counts[at]), 4)}
        for at in sorted(counts)
        for how, number in zip(_HOW, counts[at], strict=True)
    ]
    x = Column("at", loop or "first task", "number", counts=True)
    how, share = Column("how", "result", "name"), Column("share", "share", "number")
    columns = [x, how, Column("tasks", "tasks", "number"), share]
    y = share.axis(title="share of the tasks", stack="zero", axis={"format": ".0%"})
    bars = layer("bar", x=x.steps(), y=y, color=how.among(_HOW), tooltip=tips(columns))
    caption = f"{stage}: the part of its tasks that was answered instead of simulated, by {x.name}"
    yield figure(caption, columns, rows, bars, height=200)
