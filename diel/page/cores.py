"""Cores of a run over time: those that its tasks had, and those that it held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from diel.errors import DielError
from diel.page.demand import Cores as Cores
from diel.page.demand import cores_said, is_said
from diel.page.seen import Seen
from diel.site import read_kept_site
from diel.site.shape import Shape, ask_of, cores_of
from diel.timeline.bins import Bins


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
