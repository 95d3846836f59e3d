"""The panel of streams: how many items came, how quickly, and how far behind each reader is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diel.page.panel import Cell, Entry, Grid, Part, Text
from diel.page.seen import Seen
from diel.values import format_size

MOST = 50


def parts(seen: Seen) -> Iterator[Part]:
    streams = seen.status.streams
    if not streams:
        return
    rows = [_row(seen, name, facts) for name, facts in [*streams.items()][:MOST]]
    heads = ("stream", "state", "items", "bytes", "items a second", "buffer", "producers")
    yield Grid("Streams, as their broker last reported them", heads, rows, max(0, len(streams) - MOST))
    groups = [(name, *one) for name, facts in streams.items() for one in facts.get("groups", {}).items()]
    if groups:
        cells = [_reader(*one) for one in groups[:MOST]]
        names = ("stream", "readers", "given", "committed", "lag (items)", "state")
        yield Grid("Their readers: items that were put and not yet given are their lag", names, cells)
    if any(row[4] is None for row in rows):
        yield Text("A rate is measured once all producers of a stream have ended.", "note")


def _row(seen: Seen, name: str, facts: Mapping[str, Any]) -> list[Cell]:
    broken = facts.get("broken")
    state = f"broken: {broken}" if broken else "complete" if facts.get("closed") else "open"
    producers, items = facts.get("producers", {}), int(facts.get("items", 0))
    seconds = _seconds(seen, producers) if facts.get("closed") else None
    rate = None if not seconds else round(items / seconds, 3)
    size = format_size(int(facts.get("bytes", 0)))
    return [name, state, items, size, rate, int(facts.get("buffer") or 0) or None, len(producers)]


def _seconds(seen: Seen, producers: Mapping[str, Any]) -> float | None:
    """From the beginning of the first producer to the end of the last; None if some have no result."""
    begins, ends = [], []
    for stage in dict.fromkeys(task.partition("/")[0] for task in producers):
        for record in seen.run.results(stage):
            if record["event"] == "done" and f"{stage}/{record['index']}" in producers:
                begins.append(record["time"] - record.get("seconds", 0.0))
                ends.append(record["time"])
    return max(ends) - min(begins) if ends and len(ends) >= len(producers) else None


def _reader(name: str, group: str, facts: Mapping[str, Any]) -> list[Cell]:
    settled = "settled" if facts.get("settled") else "reads"
    given, committed = int(facts.get("delivered", 0)), int(facts.get("committed", 0))
    return [name, group, given, committed, int(facts.get("waiting", 0)), settled]


ENTRY = Entry("streams", "Streams", parts)
