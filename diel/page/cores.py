"""The panel of cores: those that tasks had over time, against those that the run held."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from diel.errors import DielError
from diel.page.panel import Cell, Facts, Grid, Part, Plot
from diel.page.plot import LABELS, Clock, amount, layer, nominal, stage_colour
from diel.page.run_view import RunView
from diel.results.usage import asked_in, with_asked
from diel.site import read_kept_site
from diel.site.shape import Shape, ask_of, cores_of
from diel.spec.demand import TOGETHER
from diel.timeline.timeline import Bins

MOST = 24
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


def parts(view: RunView) -> Iterator[Part]:
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
    if len(busy) <= MOST:
        return busy
    order = sorted(busy, key=lambda name: -sum(busy[name].values()))
    rest: Counter[int] = Counter()
    for name in order[MOST - 1 :]:
        rest.update(busy[name])
    return {**{name: busy[name] for name in order[: MOST - 1]}, _OTHERS: dict(rest)}


def _plot(
    clock: Clock,
    wide: float,
    busy: dict[str, dict[int, float]],
    held: Sequence[Allotment],
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


def steps_of(held: Sequence[Allotment], end: float) -> Iterator[tuple[float, int]]:
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


def task_cores(view: RunView) -> dict[str, Cores]:
    """Return the cores of a task, by stage; those of a stage that cannot be known are missing."""
    site = read_kept_site(view.paths)
    sizes: dict[str, Cores] = {}
    for name, stage in view.run.workflow.stages.items():
        if not _SAID.isdisjoint(stage.demand):  # expressions say how many its tasks have
            sizes |= {name: requested} if (requested := cores_said(view, name)) else {}
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


def busy_cores(
    view: RunView, cores: Mapping[str, Cores], most: int = 160
) -> tuple[float, dict[str, dict[int, float]]]:
    """Return the width of a bin in seconds, and the busy cores by stage and bin."""
    timeline, end = view.timeline, view.until
    totals: dict[str, defaultdict[int, float]] = {}
    width, factor = timeline.width, 1
    while (end - timeline.origin) / (width * factor) > most:
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


_SAID = {("resources", key) for key in (*TOGETHER, "cores_per_rank")}


class Cores(NamedTuple):
    """Cores of a stage's tasks."""

    mean: float
    """Weighted by how long each task had them."""
    least: int
    most: int
    """More than the least only where an expression gives each task its cores."""
    own: Mapping[tuple[int, int], int] = {}
    """Cores of each attempt, by task and number, where they differ and all attempts are kept."""


def cores_said(view: RunView, name: str) -> Cores | None:
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
