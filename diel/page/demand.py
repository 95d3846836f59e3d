"""The cores that tasks had, where expressions of their stage say how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from diel.page.seen import Seen
from diel.results.demand import asked_in, with_asked
from diel.spec import Stage
from diel.spec.demand import TOGETHER

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
