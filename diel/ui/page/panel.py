"""What a page is made of: a run as it sees it, and panels with their parts. Plain data: no part knows HTML.

A function for each panel yields its parts from a run, and nothing if the run has nothing for it.
`panels.ENTRIES` lists them all, in the order of the page. Each part of a run is read on first use,
and kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple

from diel.base.errors import DielError, counted
from diel.base.paths import RunPaths
from diel.base.values import grouped_text
from diel.observe.results import RunReader
from diel.observe.status.run import Status, fold_status
from diel.store.journal.records import Made
from diel.store.journal.segment import Reader
from diel.store.journal.snapshot import look_at
from diel.store.journal.stage_history import StageHistory
from diel.store.timeline import Timeline, read_timeline
from diel.tasks.points.domain import Domain


class RunView:
    """A run now. All that panels ask of it may raise DielError: the page then says so in their place."""

    def __init__(
        self,
        paths: RunPaths,
        *,
        public: bool = False,
        reader: Reader | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.paths = paths
        self.public = public
        """Whether hosts, users and paths outside the run are left out."""
        self._reader = reader
        self._timeline = timeline

    @cached_property
    def status(self) -> Status:
        """Whoever looks again gives the reader of the last time, and pays for the newest lines alone."""
        if self._reader is None:
            self._reader = look_at(self.paths)
        else:
            self._reader.catch_up()
        return fold_status(self.paths, self._reader)

    @cached_property
    def readable(self) -> Status | None:
        """The status; None where the journal is damaged: what needs it not is shown all the same."""
        try:
            return self.status
        except DielError:
            return None

    @property
    def alive(self) -> bool:
        return self.readable is not None and self.readable.alive

    @property
    def until(self) -> float:
        """Now for a run that goes on, else when it ended or was last heard of."""
        status, last = self.readable, self.timeline.last
        return last if status is None else max(status.now if status.ended is None else status.ended, last)

    @property
    def stages(self) -> list[str]:
        """The names of its stages, in their order."""
        status = self.readable
        return list(self.timeline.stages) if status is None else [stage.name for stage in status.stages]

    @cached_property
    def timeline(self) -> Timeline:
        if self._timeline is None:
            return read_timeline(self.paths)
        self._timeline.catch_up()
        return self._timeline

    @cached_property
    def run(self) -> RunReader:
        followed = self._reader.history if self.status.alive and self._reader is not None else None
        return RunReader(self.paths, followed, careful=bool(self._reader and self._reader.flaws))

    def take_care(self) -> bool:
        """Read the run again, without what is damaged in it; False if it was read so already."""
        if self.run.careful:
            return False
        self.run = RunReader(self.paths, careful=True)
        _ = self.run.history  # what is damaged is known then
        vars(self).pop("records", None)
        return True

    @cached_property
    def records(self) -> dict[str, tuple[Mapping[int, Made], str]]:
        """By stage what is drawn of its results, and how that was chosen."""
        return records_of(self.run)


POINTS = 2000
"""Tasks of all stages together that are drawn: most of a page's bytes."""
LEAST = 400
"""Of each stage at least so many are, if it has them."""
WHOLE = 20_000
"""Tasks up to which all results of a run are read to find those that are drawn."""


def records_of(run: RunReader, most: int = 0) -> dict[str, tuple[Mapping[int, Made], str]]:
    """Return by stage what a page draws of it, at most so many tasks, and how these were chosen. The more
    stages, the fewer of each. A short journal is read whole, a long one once for all stages."""
    domains = {name: run.domain(name) for name in run.graph.order}
    plotted = [domain for domain in domains.values() if domain and domain.size > 1]
    most = most or max(LEAST, POINTS // max(1, len(plotted)))
    chosen = {name: _chosen(run.history.stage(name), domain, most) for name, domain in domains.items()}
    drawn = {name: frozenset(indices) for name, (indices, _) in chosen.items()}
    if sum(good_of(run.history.stage(name)) for name in domains) > WHOLE:
        samples: Mapping[str, Mapping[int, Made]] = run.records_of_tasks(drawn)
    else:
        whole = {name: run.records(name) if drawn[name] else {} for name in domains}
        samples = {
            name: {index: whole[name][index] for index in drawn[name] if index in whole[name]}
            for name in domains
        }
    return {name: (samples[name], chosen[name][1]) for name in domains}


def good_of(history: StageHistory) -> int:
    """Return the tasks with a result."""
    counts = history.counts()
    return counts["done"] + counts["cached"]


def _chosen(history: StageHistory, domain: Domain | None, most: int) -> tuple[Sequence[int], str]:
    """Return the tasks of a stage with results that are drawn, and by what rule."""
    if domain is not None and good_of(history) == domain.size > most:
        return choose(domain, most)
    good = list(history.good())
    return (good, "") if domain is None or len(good) <= most else choose(domain, most, good)


def choose(domain: Domain, most: int, candidates: Sequence[int] | None = None) -> tuple[Sequence[int], str]:
    """Return at most so many tasks: at every n-th point of each axis, or every n-th of few `candidates`."""
    if candidates is not None and len(candidates) < domain.size // 2:
        step = -(-len(candidates) // most)
        return candidates[::step], f"every {_nth(step)} of {counted(len(candidates), 'result')} is drawn"
    steps = [1] * len(domain.factors)
    counts = [factor.count for factor in domain.factors]
    while prod(counts) > most:
        longest = counts.index(max(counts))
        steps[longest] += 1
        counts[longest] = -(-domain.factors[longest].count // steps[longest])
    strides = [prod(f.count for f in domain.factors[place + 1 :]) for place in range(len(domain.factors))]
    numbers = [range(0, factor.count, step) for factor, step in zip(domain.factors, steps, strict=True)]
    indices = [
        sum(number * stride for number, stride in zip(row, strides, strict=True)) for row in product(*numbers)
    ]
    cuts = [
        f"every {_nth(step)} point of {' and '.join(factor.axes)}"
        for factor, step in zip(domain.factors, steps, strict=True)
        if step > 1
    ]
    rule = f"drawn is {', '.join(cuts)}: {len(indices):,} of {counted(domain.size, 'task')}" if cuts else ""
    return indices, rule


def _nth(step: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{step:,}{'th' if 10 < step % 100 < 14 else ends.get(step % 10, 'th')}"


FEWEST = 5
"""Significant digits of a number in a table or chart, where they tell it apart."""


class Bar(NamedTuple):
    """A cell with a small bar: shares of one whole, each with the name of its state or tone."""

    shares: Sequence[tuple[str, float]]
    text: str
    """What it says, for those who do not see it: it stands beside the bar."""


Cell = str | int | float | bool | None | Bar


def scalar_text(cell: float | None, digits: int) -> str:
    """Return a cell that is no text: a number in so many digits, yes or no, or nothing."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case _:
            return grouped_text(cell, digits)


class Text(NamedTuple):
    """A paragraph."""

    text: str
    tone: str = ""
    """`good`, `bad`, `note` (something is missing, or to be known), or nothing."""


class Facts(NamedTuple):
    """Names with their values, as in a head."""

    facts: Sequence[tuple[str, str]]
    big: bool = False
    """Whether they are figures that lead: few, and large."""


class Grid(NamedTuple):
    """Rows below columns; the first column names its row."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    more: int = 0
    """How many rows there are beyond these."""


class Plot(NamedTuple):
    """A chart as a specification of Vega-Lite, and its numbers. The page adds width, fonts and the colours of
    text and axes, for light and dark; the specification says the rest: data, marks, encodings, and colours
    that mean something (`diel.ui.page.plot`)."""

    caption: str
    """What it shows, as a sentence."""
    spec: Mapping[str, Any]
    table: Grid


class Alternatives(NamedTuple):
    """Several charts of the same, of which the reader picks one; the first is shown."""

    label: str
    """What is chosen: `Shown as`."""
    charts: Sequence[tuple[str, Plot]]


class Picture(NamedTuple):
    """An image of the run."""

    caption: str
    alt: str
    media: str
    """`image/png` or `image/svg+xml`."""
    data: bytes


class Sketch(NamedTuple):
    """An SVG that diel drew, with the page's classes for its colours, and what it shows as a table."""

    caption: str
    svg: str
    table: Grid


class Log(NamedTuple):
    """Lines as a program wrote them."""

    caption: str
    text: str


Part = Text | Facts | Grid | Plot | Alternatives | Picture | Sketch | Log


class Panel(NamedTuple):
    """A section of the page."""

    name: str
    """For links: `stages`."""
    title: str
    parts: Sequence[Part]


class Entry(NamedTuple):
    """How a panel is made."""

    name: str
    title: str
    parts: Callable[[RunView], Iterable[Part]]
