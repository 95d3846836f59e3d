"""The page of two runs beside each other."""

from collections.abc import Iterator, Sequence
from typing import Any

from diel.base.values import clock, is_finite
from diel.observe.comparison import comparison
from diel.observe.comparison.trend import RUN_COLUMNS, Measure, Trend
from diel.ui.page.document import document, panel_data
from diel.ui.page.panel import Cell, Grid, Panel, Part, Plot, Text
from diel.ui.page.plot import SERIES, STATES, amount, layer, nominal

_COLOURS = {"slower": STATES["failed"], "faster": STATES["done"]}


def comparison_page(contrast: comparison.RunDiff) -> str:
    """Return the file: one that needs no network."""
    first, second = contrast.names
    panels = [panel for panel in _panels(contrast) if panel.parts]
    data = {"run": f"{first} and {second}", "state": "compared", "panels": list(map(panel_data, panels))}
    return document(data)


def _panels(contrast: comparison.RunDiff) -> Iterator[Panel]:
    yield Panel("runs", "Runs", [Grid("The runs", ("", *contrast.names), list(map(_row, contrast.facts)))])
    for name, title, unequal in (
        ("hyperparameters", "Hyperparameters", contrast.hyperparameters),
        ("versions", "Versions and surroundings", contrast.versions),
    ):
        grid = Grid(f"{title} that differ", ("", *contrast.names), list(map(_row, unequal)))
        yield Panel(name, title, [grid if unequal else Text("All are the same.")])
    if contrast.workflow:
        rows = [
            (change.name, comparison.changed_text(change, contrast.names)) for change in contrast.workflow
        ]
        grid = Grid("Stages that are not the same", ("stage", "what differs"), rows)
        yield Panel("stages", "Stages that are not the same", [grid])
    yield Panel("times", "Times by stage", list(_times(contrast)))
    yield Panel("results", "Results", list(_results(contrast)))
    yield Panel("notes", "Not compared", [Text(note, "note") for note in contrast.notes])


def _row(fact: comparison.UnequalFact) -> list[str]:
    return [fact.name, *comparison.both_texts(fact)]


def _times(contrast: comparison.RunDiff) -> Iterator[Part]:
    if not contrast.times:
        return
    first, second = contrast.names
    heads = ("stage", "tasks", first, second, "ratio", "from", "to", "p", "")
    grid = Grid("Times of the median task", heads, [_row_of_times(times) for times in contrast.times])
    values = [
        {
            "stage": times.stage,
            "ratio": times.ratio,
            "low": times.interval[0] if times.interval else times.ratio,
            "high": times.interval[1] if times.interval else times.ratio,
            "colour": _COLOURS.get(times.verdict, STATES["skipped"]),
            "verdict": comparison.verdict_text(times),
        }
        for times in contrast.times
        if times.ratio is not None
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
    yield Text(f"Mind: {comparison.CAVEAT}.", "note")


def _row_of_times(ratio: comparison.Times) -> list[str | float | None]:
    low, high = ratio.interval or (None, None)
    numbers = [None if value is None else float(f"{value:.3g}") for value in (ratio.ratio, low, high)]
    times, p = map(comparison.seconds_text, ratio.median), comparison.p_text(ratio.shift)
    return [ratio.stage, comparison.tasks_text(ratio), *times, *numbers, p, comparison.verdict_text(ratio)]


def _results(contrast: comparison.RunDiff) -> Iterator[Part]:
    if contrast.results:
        means = (f"mean in {name}" for name in contrast.names)
        heads = ("output", "tasks", "differ", *means, "change", "p", "largest difference")
        rows = [[cell.strip() for cell in row] for row in comparison.rows_of_results(contrast.results)]
        yield Grid("What the tasks made", heads, rows)


_DATES = {"format": "%Y-%m-%d %H:%M", "tickCount": 5, "labelOverlap": True}
_VALUES = {"scale": {"zero": False}, "axis": {"format": ".6~g"}}  # 7e-16 is not 0
MOST = 60
"""Figures with a chart; of the rest there are the last values."""


def trend_page(trend: Trend) -> str:
    """Return the file: one that needs no network."""
    groups = dict.fromkeys(measure.group for measure in trend.measures)
    panels = [Panel("runs", "Runs", [_runs(trend), *(Text(note, "note") for note in trend.notes)])]
    for number, group in enumerate(groups):
        measures = [measure for measure in trend.measures if measure.group == group]
        panels.append(Panel(f"figures-{number}", group or "Figures", list(_figures(trend, measures))))
    return document({"run": trend.workflow, "state": "by date", "panels": list(map(panel_data, panels))})


def _runs(trend: Trend) -> Grid:
    rows: list[list[Cell]] = [[*run.cells, *run.counts] for run in reversed(trend.runs)]
    return Grid("The runs, the newest first", RUN_COLUMNS, rows)


def _figures(trend: Trend, measures: Sequence[Measure]) -> Iterator[Part]:
    for figure in measures[:MOST]:
        name, values = figure.name, zip(trend.runs, figure.values, strict=True)
        rows = [(run.run, clock(run.began), value) for run, value in values]
        remark = ": the last value is beyond the scatter of those before" if figure.is_beyond else ""
        yield Plot(f"{name}{remark}", _spec(trend, figure), Grid(name, ("run", "began", name), rows))
    if len(measures) > MOST:
        rest = [(figure.name, figure.numbers[-1]) for figure in measures[MOST:]]
        yield Grid("The last values of further figures", ("figure", "last"), rest)


def _spec(trend: Trend, measure: Measure) -> dict[str, Any]:
    values = [
        {"run": run.run, "began": int(run.began * 1000), "value": value}
        for run, value in zip(trend.runs, measure.values, strict=True)
        if is_finite(value)
    ]
    colour = STATES["failed"] if measure.is_beyond else SERIES[0]
    began = {"field": "began", "type": "temporal"}
    line = layer(
        {"type": "line", "point": {"filled": True, "size": 50, "color": colour}, "color": SERIES[0]},
        x={**began, "title": None, "axis": _DATES},
        y=amount("value", title=None, **_VALUES),
        tooltip=[{"field": "run"}, began, {"field": "value"}],
    )
    return {"data": {"values": values}, "height": 140, **line}
