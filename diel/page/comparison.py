"""The page of two runs beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from diel.comparison.comparison import (
    CAVEAT,
    Contrast,
    Times,
    Unequal,
    both_texts,
    changed_text,
    p_text,
    rows_of_results,
    said_of,
    seconds_text,
    tasks_text,
)
from diel.comparison.trend import RUN_COLUMNS, Measure, Trend
from diel.page.document import document, panel_data
from diel.page.panel import Cell, Grid, Panel, Part, Plot, Text
from diel.page.plot import SERIES, STATES, amount, layer, nominal
from diel.values import clock, is_finite

_COLOURS = {"slower": STATES["failed"], "faster": STATES["done"]}


def comparison_page(found: Contrast) -> str:
    """The file: one that needs no network."""
    first, second = found.names
    panels = [panel for panel in _panels(found) if panel.parts]
    data = {"run": f"{first} and {second}", "state": "compared", "panels": list(map(panel_data, panels))}
    return document(data)


def _panels(found: Contrast) -> Iterator[Panel]:
    yield Panel("runs", "Runs", [Grid("The runs", ("", *found.names), list(map(_row, found.facts)))])
    for name, title, unequal in (
        ("hyperparameters", "Hyperparameters", found.hyperparameters),
        ("versions", "Versions and surroundings", found.versions),
    ):
        grid = Grid(f"{title} that differ", ("", *found.names), list(map(_row, unequal)))
        yield Panel(name, title, [grid if unequal else Text("All are the same.")])
    if found.workflow:
        rows = [(one.name, changed_text(one, found.names)) for one in found.workflow]
        grid = Grid("Stages that are not the same", ("stage", "what differs"), rows)
        yield Panel("stages", "Stages that are not the same", [grid])
    yield Panel("times", "Times by stage", list(_times(found)))
    yield Panel("results", "Results", list(_results(found)))
    yield Panel("notes", "Not compared", [Text(note, "note") for note in found.notes])


def _row(one: Unequal) -> list[str]:
    return [one.name, *both_texts(one)]


def _times(found: Contrast) -> Iterator[Part]:
    if not found.times:
        return
    first, second = found.names
    heads = ("stage", "tasks", first, second, "ratio", "from", "to", "p", "")
    grid = Grid("Times of the median task", heads, [_row_of_times(one) for one in found.times])
    values = [
        {
            "stage": one.stage,
            "ratio": one.ratio,
            "low": one.interval[0] if one.interval else one.ratio,
            "high": one.interval[1] if one.interval else one.ratio,
            "colour": _COLOURS.get(one.verdict, STATES["skipped"]),
            "verdict": said_of(one),
        }
        for one in found.times
        if one.ratio is not None
    ]
    if not values:
        yield grid
        return
    common = {"y": nominal("stage", sort=None, title=None), "color": nominal("colour", scale=None)}
    x = amount("ratio", scale={"type": "log", "nice": True}, title=f"time in {second} over {first}")
    ends = {"x": {**x, "field": "low"}, "x2": {"field": "high"}}
    tip = [{"field": name} for name in ("stage", "ratio", "low", "high", "verdict")]
    layers = [
        layer({"type": "rule", "strokeDash": [4, 4]}, x={"datum": 1}),
        layer({"type": "rule", "strokeWidth": 3}, **common, **ends),
        layer({"type": "point", "filled": True, "size": 80}, **common, x=x, tooltip=tip),
    ]
    spec = {"data": {"values": values}, "height": 30 + 30 * len(values), "layer": layers}
    yield Plot("Ratio of the times of each stage, with its interval of 95 %; 1 is no difference", spec, grid)
    yield Text(f"Mind: {CAVEAT}.", "note")


def _row_of_times(one: Times) -> list[str | float | None]:
    low, high = one.interval or (None, None)
    numbers = [None if value is None else float(f"{value:.3g}") for value in (one.ratio, low, high)]
    times = map(seconds_text, one.median)
    return [one.stage, tasks_text(one), *times, *numbers, p_text(one.shift), said_of(one)]


def _results(found: Contrast) -> Iterator[Part]:
    if found.results:
        means = (f"mean in {name}" for name in found.names)
        heads = ("output", "tasks", "differ", *means, "change", "p", "largest difference")
        rows = [[cell.strip() for cell in row] for row in rows_of_results(found.results)]
        yield Grid("What the tasks made", heads, rows)


_DATES = {"format": "%Y-%m-%d %H:%M", "tickCount": 5, "labelOverlap": True}
_VALUES = {"scale": {"zero": False}, "axis": {"format": ".6~g"}}  # 7e-16 is not 0
MOST = 60
"""Figures with a chart; of the rest there are the last values."""


def trend_page(trend: Trend) -> str:
    """The file: one that needs no network."""
    groups = dict.fromkeys(one.group for one in trend.measures)
    panels = [Panel("runs", "Runs", [_runs(trend), *(Text(note, "note") for note in trend.notes)])]
    for number, group in enumerate(groups):
        found = [one for one in trend.measures if one.group == group]
        panels.append(Panel(f"figures-{number}", group or "Figures", list(_figures(trend, found))))
    return document({"run": trend.workflow, "state": "by date", "panels": list(map(panel_data, panels))})


def _runs(trend: Trend) -> Grid:
    rows: list[list[Cell]] = [[*one.cells, *one.counts] for one in reversed(trend.runs)]
    return Grid("The runs, the newest first", RUN_COLUMNS, rows)


def _figures(trend: Trend, found: Sequence[Measure]) -> Iterator[Part]:
    for one in found[:MOST]:
        rows = [(run.run, clock(run.began), value) for run, value in zip(trend.runs, one.values, strict=True)]
        told = ": the last value is beyond the scatter of those before" if one.is_beyond else ""
        yield Plot(f"{one.name}{told}", _spec(trend, one), Grid(one.name, ("run", "began", one.name), rows))
    if len(found) > MOST:
        rest = [(one.name, one.known[-1]) for one in found[MOST:]]
        yield Grid("The last values of further figures", ("figure", "last"), rest)


def _spec(trend: Trend, one: Measure) -> dict[str, Any]:
    values = [
        {"run": run.run, "began": int(run.began * 1000), "value": value}
        for run, value in zip(trend.runs, one.values, strict=True)
        if is_finite(value)
    ]
    colour = STATES["failed"] if one.is_beyond else SERIES[0]
    began = {"field": "began", "type": "temporal"}
    line = layer(
        {"type": "line", "point": {"filled": True, "size": 50, "color": colour}, "color": SERIES[0]},
        x={**began, "title": None, "axis": _DATES},
        y=amount("value", title=None, **_VALUES),
        tooltip=[{"field": "run"}, began, {"field": "value"}],
    )
    return {"data": {"values": values}, "height": 140, **line}
