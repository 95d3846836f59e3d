"""Cores of a run over time: those that its tasks had, and those that it held."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from diel.errors import DielError
from diel.page.seen import Seen
from diel.results.demand import asked_in, with_asked
from diel.site import read_kept_site
from diel.site.shape import Shape, ask_of, cores_of
from diel.spec import Stage
from diel.spec.demand import TOGETHER
from diel.timeline.timeline import Bins


class Allotment(NamedTuple):
    """An allocation, or this machine while a controller drove the run."""

    name: str
    nodes: int
    cores: int
    began: float
    ended: float


def task_cores(seen: Seen) -> dict[str, Cores]:
    """The cores of a task, by stage; those of a stage that cannot be known are missing."""
    site = read_kept_site(seen.paths)
    found: dict[str, Cores] = {}
    for name, stage in seen.run.workflow.stages.items():
        if is_said(stage):
            found |= {name: said} if (said := cores_said(seen, name)) else {}
            continue
        with suppress(DielError):
            each = ask_of(site, stage).cores
            found[name] = Cores(each, each, each)
    return found


def held(seen: Seen) -> list[Allotment]:
    """What the run held so far, the oldest first."""
    site, end = read_kept_site(seen.paths), seen.until
    if not site.scheduled:
        cores = sum(cores_of(pool) for pool in site.pools.values())
        return [Allotment("this machine", 1, cores, *times) for times in _driven(seen, end)]
    found = []
    for block in seen.status.blocks:
        pool = site.pools.get(block["pool"])
        if pool is not None and block["began"] is not None:
            nodes = Shape(**block["needs"]).block_nodes(pool)
            ended = end if block["ended"] is None else block["ended"]
            found.append(Allotment(block["block"], nodes, nodes * cores_of(pool), block["began"], ended))
    return found


def _driven(seen: Seen, end: float) -> Iterator[tuple[float, float]]:
    """When controllers drove the run: the newest until now, each before it to its last sign of life."""
    epochs = [times for _, times in sorted(seen.timeline.driven.items())]
    for (began, last), (after, _) in pairwise(epochs):
        yield began, min(last, after)
    yield from ((began, end) for began, _ in epochs[-1:])


def busy(
    seen: Seen, cores: Mapping[str, Cores], most: int = 160
) -> tuple[float, dict[str, dict[int, float]]]:
    """By stage and bin the cores that were busy, and the width of a bin in seconds."""
    timeline, end = seen.timeline, seen.until
    made: dict[str, defaultdict[int, float]] = {}
    width, factor = timeline.width, 1
    while (end - timeline.origin) / (width * factor) > most:
        factor *= 2

    def add(name: str, bins: Bins, each: float) -> None:
        into = made.setdefault(name, defaultdict(float))
        for place, seconds in bins.busy.items():
            into[place // factor] += each * seconds / (width * factor)

    alone = list(timeline.running(end, live=seen.alive))
    for name, stage in timeline.stages.items():
        if name in cores and cores[name].own:
            alone += stage.spans
            continue
        for bins in stage.lanes.values():
            add(name, bins, cores[name].mean if name in cores else 1)
    for span in alone:
        bins, origin = Bins(), timeline.origin
        bins.spread(max(0.0, (span.begin - origin) / width), (span.end - origin) / width, width)
        known = cores.get(span.stage, Cores(1, 1, 1))
        add(span.stage, bins, known.own.get((span.index, span.attempt), known.mean))
    return width * factor, {name: dict(one) for name, one in made.items()}


_SAID = {("resources", key) for key in (*TOGETHER, "cores_per_rank")}


class Cores(NamedTuple):
    """Cores of a stage's tasks."""

    mean: float
    """Weighted by how long each task had them."""
    least: int
    most: int
    """Other than the least only where expressions say it for each task."""
    own: Mapping[tuple[int, int], int] = {}
    """Those of each attempt, by task and number, where they differ and all attempts are kept."""


def is_said(stage: Stage) -> bool:
    """Whether expressions say how many cores its tasks have."""
    return not _SAID.isdisjoint(stage.demand)


def cores_said(seen: Seen, name: str) -> Cores | None:
    """What the attempts of a stage asked for; None before there is one."""
    times, wanted = seen.timeline.stages.get(name), seen.run.workflow.stages[name].bare.resources
    spans = [] if times is None or times.binned else times.spans
    own, counts = {}, Counter[int]()
    for index, number, asked in asked_in(seen.run, name):
        each = with_asked(wanted, asked).cores
        counts[each] += 1
        if spans:
            own[index, number] = each
    if not counts:
        return None
    low, high = min(counts), max(counts)
    had = [(own[at], span.seconds) for span in spans if (at := (span.index, span.attempt)) in own]
    had = had if any(seconds for _, seconds in had) else [*counts.items()]
    mean = sum(each * weight for each, weight in had) / sum(weight for _, weight in had)
    return Cores(mean, low, high, {} if low == high else own)
