"""The panel of occupancy: cores that tasks had, against those that the run held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from diel.page import cores
from diel.page.panel import Cell, Facts, Grid, Part, Plot
from diel.page.plot import LABELS, Clock, amount, layer, nominal, stage_colour
from diel.page.seen import Seen

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


def parts(seen: Seen) -> Iterator[Part]:
    timeline = seen.timeline
    if not timeline.stages or not timeline.origin:
        return
    each = cores.task_cores(seen)
    held = cores.held(seen)
    clock = Clock.over(timeline.origin, seen.until)
    wide, busy = cores.busy(seen, each)
    busy = _largest(busy)
    used = sum(sum(one.values()) for one in busy.values()) * wide
    whole = sum(one.cores * (one.ended - one.began) for one in held)
    facts = [("cores that tasks had, on the average", f"{used / max(1e-9, clock.end - clock.begin):.3g}")]
    if whole:
        facts += [("cores held", f"{whole / (clock.end - clock.begin):.3g}")]
        facts += [("of what was held", f"{min(1.0, used / whole):.0%}")]
    facts += [("core-hours of tasks", f"{used / 3600:.3g}")]
    yield Facts(facts, big=True)
    yield _plot(clock, wide, busy, held, [*seen.stages, *([_OTHERS] if _OTHERS in busy else [])])


def _largest(busy: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    """Of many stages those that had the most, and the others together: each has a value at any time."""
    if len(busy) <= MOST:
        return busy
    order = sorted(busy, key=lambda name: -sum(busy[name].values()))
    others: Counter[int] = Counter()
    for name in order[MOST - 1 :]:
        others.update(busy[name])
    return {**{name: busy[name] for name in order[: MOST - 1]}, _OTHERS: dict(others)}


def _plot(
    clock: Clock,
    wide: float,
    busy: dict[str, dict[int, float]],
    held: Sequence[cores.Allotment],
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
        [f"held: {one.name}", one.nodes, one.cores, round((one.ended - one.began) * one.cores / 3600, 4)]
        for one in held
    ]
    rows += [[name, None, None, round(sum(busy[name].values()) * wide / 3600, 4)] for name in names]
    table = Grid(
        "Core-hours held, and those of tasks by stage", ("what", "nodes", "cores", "core-hours"), rows
    )
    return Plot("Cores that tasks had, by stage, below those that the run held (dashed)", spec, table)


def steps_of(held: Sequence[cores.Allotment], end: float) -> Iterator[tuple[float, int]]:
    """When the number of cores that are held changes, and what it is then."""
    changes = [(one.began, one.cores) for one in held]
    changes += [(one.ended, -one.cores) for one in held if one.ended < end]
    count = 0
    for when, change in sorted(changes):
        count += change
        yield when, count
    if held:
        yield end, count
