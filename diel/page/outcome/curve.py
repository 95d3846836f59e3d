"""Curves of what tasks reported while they ran: step by step, bounded in number and length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from diel.page.panel import Part, Plot, Text
from diel.page.plot import Column, Row, figure, kind_of, layer, one_of, thinned, tips
from diel.page.seen import Seen
from diel.results.metrics import curves

LINES = 30
STEPS = 100
METRICS = 6

STEP = Column("step", "step", "number", counts=True)


def parts(seen: Seen) -> Iterator[Part]:
    """The metrics of each stage; those of a search's trials are with the search."""
    run = seen.run
    searched = {axis.facts.watched.rpartition(".")[0] for axis in seen.status.axes}
    for stage in run.graph.order:
        total = run.history.stage(stage).total
        if stage in searched or not total:
            continue
        wanted = thinned(range(total), LINES)
        found = curves(run, stage, frozenset(wanted))
        names = list(dict.fromkeys(name for one in found.values() for name in one))
        named = {index: run.named(f"{stage}/{index}") for index in found}
        names.sort(key=lambda name: all(_only_counts(one.get(name, {})) for one in found.values()))
        charts = [made for name in names if (made := _of_metric(stage, name, found, named)) is not None]
        if charts:
            yield one_of(f"{stage} reported", charts[:METRICS])
            if total > len(wanted):
                looked = f"{stage}: of {total:,} tasks {len(wanted)} were looked at, evenly chosen"
                yield Text(f"{looked}; {len(found)} have reported.", "note")


def _only_counts(curve: Mapping[int, tuple[float, float | None]]) -> bool:
    """Whether a metric is whole numbers that grow, as of items: no course that one would look at first."""
    values = [curve[step][0] for step in sorted(curve)]
    return all(value.is_integer() for value in values) and values == sorted(values)


def _of_metric(
    stage: str, name: str, found: Mapping[int, Mapping[str, Any]], named: Mapping[int, str]
) -> tuple[str, Plot] | None:
    lines = {named[index]: one[name] for index, one in found.items() if len(one.get(name, ())) > 1}
    rows = list(
        rows_of((who, {step: value for step, (value, _) in curve.items()}) for who, curve in lines.items())
    )
    if not rows:
        return None
    y = Column("y", name, kind_of((row["y"] for row in rows), spaced=False))
    who = Column("who", "task", "name")
    colour = {"color": who.named()} if 1 < len(lines) <= 8 else {}
    mark = {"type": "line", "opacity": 1.0 if len(lines) <= 8 else 0.5, "tooltip": True}
    columns, detail = [who, STEP, y], {"field": "who"}
    line = layer(mark, x=STEP.axis(), y=y.axis(), tooltip=tips(columns), detail=detail, **colour)
    return name, figure(f"{stage}: {name} as it was reported, step by step", columns, rows, line)


def rows_of(lines: Iterable[tuple[str, Mapping[int, float]]]) -> Iterator[Row]:
    """The points of curves, each thinned to so many steps."""
    for who, curve in lines:
        for step in thinned(sorted(curve), STEPS):
            yield {"who": who, "step": step, "y": curve[step]}
