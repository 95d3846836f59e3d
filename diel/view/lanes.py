"""Who worked when, in text: a row for each worker or node, a letter for the stage that filled it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style
from rich.text import Text

from diel.errors import DielError
from diel.page import cores, occupancy
from diel.page.seen import Seen
from diel.status import Status
from diel.timeline import Timeline
from diel.values import format_duration
from diel.view.charts import COLOURS, Chart, Series
from diel.view.marks import MARKS

if TYPE_CHECKING:
    from diel.journal.records import BlockNow

MOST_ROWS = 24
"""Rows of workers; with more, a row is a node, and of many nodes the last are left out."""
MOST_BLOCKS = 8
LABEL = 16
SINCE = "seconds since the beginning"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Stretch(NamedTuple):
    """The time that a picture shows, in seconds since the epoch."""

    begin: float
    end: float
    cells: int

    def cell(self, time: float) -> int:
        part = (time - self.begin) / max(self.end - self.begin, 1e-9)
        return max(0, min(int(part * self.cells), self.cells - 1))


Cells = defaultdict[int, dict[str, float]]
"""By cell, the seconds of each stage; those that failed or were pruned count as the stage ''."""


def lanes_text(timeline: Timeline, status: Status, width: int) -> Text:
    """Blocks and workers over time."""
    if not timeline.origin:
        return Text("no attempt has ended yet")
    end = status.now if status.state.live else max(timeline.last, timeline.origin)
    span = Stretch(timeline.origin, end, max(10, width - LABEL - 2))
    stages = [stage.name for stage in status.stages]
    letters = {name: _LETTERS[place % len(_LETTERS)] for place, name in enumerate(stages)}
    lines = [_block_line(block, span) for block in status.blocks[-MOST_BLOCKS:]]
    rows = _rows(timeline)
    cells = _cells(timeline, status, span)
    for label, lanes in rows[:MOST_ROWS]:
        line = Text(f"{label[:LABEL]:<{LABEL}} ")
        for place in range(span.cells):
            at: defaultdict[str, float] = defaultdict(float)
            for lane in lanes:
                for name, seconds in cells[lane].get(place, {}).items():
                    at[name] += seconds
            line.append_text(_cell(at, stages, letters))
        lines.append(line)
    if len(rows) > MOST_ROWS:
        lines.append(Text(f"… {len(rows) - MOST_ROWS:,} more"))
    took = format_duration(span.end - span.begin)
    lines.append(Text(f"{'':<{LABEL}} 0{took:>{span.cells - 1}}", style="grey62"))
    keys = [f"{letters[name]}:{name}" for name in stages]
    named = [Text(key, style=_style(place)) for place, key in enumerate(keys)]
    legend = Text("  ").join([*named, Text("✗ no result")])
    return Text("\n").join([*lines, legend])


def _rows(timeline: Timeline) -> list[tuple[str, list[int]]]:
    """The lanes of each row: a worker, or all workers of a node."""
    by_node: dict[str, list[int]] = {}
    for place, lane in enumerate(timeline.lanes):
        by_node.setdefault(lane.node or "others", []).append(place)
    if len(timeline.lanes) > MOST_ROWS:
        return sorted(by_node.items())
    return [
        (f"{node}/{n}", [lane]) for node, lanes in sorted(by_node.items()) for n, lane in enumerate(lanes)
    ]


def _cells(timeline: Timeline, status: Status, span: Stretch) -> defaultdict[int, Cells]:
    made: defaultdict[int, Cells] = defaultdict(lambda: defaultdict(lambda: defaultdict(float)))
    for name, stage in timeline.stages.items():
        for lane, bins in stage.lanes.items():
            for place, busy in bins.busy.items():
                made[lane][span.cell(timeline.origin + (place + 0.5) * timeline.width)][name] += busy
            for place in bins.failed:
                made[lane][span.cell(timeline.origin + (place + 0.5) * timeline.width)][""] = 1
    for one in timeline.running(span.end, live=status.state.live):
        for place in range(span.cell(one.begin), span.cell(one.end) + 1):
            made[one.lane][place][one.stage] += (span.end - span.begin) / span.cells
    return made


def _cell(at: dict[str, float], stages: Sequence[str], letters: dict[str, str]) -> Text:
    if "" in at:
        return Text("✗", style=MARKS["failed"][1])
    if not at:
        return Text("·", style="grey35")
    name = max(at, key=lambda one: at[one])
    return Text(letters.get(name, "?"), style=_style(stages.index(name) if name in stages else 0))


def _style(place: int) -> Style:
    red, green, blue = COLOURS[place % len(COLOURS)]
    return Style(color="black", bgcolor=f"rgb({red},{green},{blue})")


def _block_line(block: BlockNow, span: Stretch) -> Text:
    """A block from when it was asked for: waiting, running, ended."""
    line = Text(f"{'block ' + block['block']:<{LABEL}.{LABEL}} ")
    asked, began = span.cell(block["asked"]), span.cell(block["began"] or span.end)
    ended = span.cell(block["ended"] or span.end)
    began = min(began, ended)
    line.append(" " * asked + "◔" * (began - asked), style=MARKS["pending"][1])
    drawn = "━" * (ended - began + 1) if block["began"] is not None else ""
    line.append(drawn, style=MARKS["running"][1])
    return line.append("" if block["ended"] is None else f" {block['state']}", style="grey62")


def work_charts(seen: Seen) -> Iterator[Chart]:
    """The cores that tasks had beside those that the run held, and how many attempts ended a second."""
    timeline = seen.timeline
    try:
        each, blocks = cores.task_cores(seen), cores.held(seen)
    except DielError:  # its site or workflow cannot be read
        each, blocks = {}, []
    wide, busy = cores.busy(seen, each)
    whole = int((seen.until - timeline.origin) / wide)  # the last bin is not yet full
    if not busy or whole < 2:
        return
    xs = [place * wide for place in range(whole)]
    used = [sum(one.get(place, 0.0) for one in busy.values()) for place in range(whole)]
    series = [Series("of tasks", xs, used)]
    steps = [*occupancy.steps_of(blocks, seen.until)]
    corners = [point for (a, c), (b, _) in pairwise(steps) for point in ((a, c), (b, c))]
    if corners:
        at = [max(0.0, when - timeline.origin) for when, _ in corners]
        series.append(Series("held", at, [count for _, count in corners]))
    yield Chart("cores that tasks had, and that the run held", SINCE, tuple(series), from_zero=True)
    ended = sum(
        (Counter(bins.ended) for s in timeline.stages.values() for bins in s.lanes.values()), Counter()
    )
    bins = int((seen.until - timeline.origin) / timeline.width)
    step = max(1, bins // 60)
    parts = [range(first, first + step) for first in range(0, bins - step + 1, step)]
    rates = [sum(ended[place] for place in part) / (step * timeline.width) for part in parts]
    rate = Series("ended", [part[0] * timeline.width for part in parts], rates)
    yield Chart("tasks that ended a second", SINCE, (rate,), from_zero=True)
