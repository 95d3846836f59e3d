"""The page of a workflow's runs by date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from diel.comparison.trend import Measure, Trend
from diel.page.colours import SERIES, STATES
from diel.page.document import document, panel_data
from diel.page.panel import Cell, Grid, Panel, Part, Plot, Text
from diel.values import clock, format_duration

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
    rows: list[list[Cell]] = [
        [
            one.run,
            clock(one.began),
            one.state,
            "" if one.seconds is None else format_duration(one.seconds),
            *(one.tasks.get(state, 0) for state in ("done", "cached", "failed")),
        ]
        for one in reversed(trend.runs)
    ]
    return Grid(
        "The runs, the newest first", ("run", "began", "state", "took", "done", "cached", "failed"), rows
    )


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
        if value is not None
    ]
    colour = STATES["failed"] if one.is_beyond else SERIES[0]
    return {
        "data": {"values": values},
        "height": 140,
        "mark": {"type": "line", "point": {"filled": True, "size": 50, "color": colour}, "color": SERIES[0]},
        "encoding": {
            "x": {"field": "began", "type": "temporal", "title": None, "axis": _DATES},
            "y": {"field": "value", "type": "quantitative", "title": None, **_VALUES},
            "tooltip": [{"field": "run"}, {"field": "began", "type": "temporal"}, {"field": "value"}],
        },
    }
