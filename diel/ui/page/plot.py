"""What plots share: what a column is, its axis in a chart, its layers, and the table under it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from diel.base.values import MOST_DIGITS, digits_apart, format_duration, is_finite
from diel.store.table import shown
from diel.ui.page.panel import FEWEST, Alternatives, Cell, Grid, Plot

Row = Mapping[str, Any]
Kind = Literal["number", "log", "name"]

ROWS = 40
FEW = 8
"""The most colours that are told apart."""
WIDE = 100.0
"""The ratio of the largest to the smallest number from which on a logarithmic scale is worth it."""
HEIGHT = 260
RAMP = {"name": "viridis", "extent": [0.3, 0.95]}
"""Without its ends: a chart is not drawn anew for dark, where purple is not seen, nor yellow in light."""


class Column(NamedTuple):
    """One column of a plot's rows: the key of its values, its name for people, what it is."""

    key: str
    name: str
    kind: Kind
    counts: bool = False
    """Whether it only counts: seeds, members, rounds."""

    def axis(self, **more: Any) -> dict[str, Any]:
        """Return the encoding of a column along an axis; logarithmic where its points are spaced so."""
        if self.kind == "name":
            return self.named() | more
        log = {"type": "log", "nice": False, "padding": 8}
        encoding = amount(self.key, title=self.name, scale=log if self.kind == "log" else {"zero": False})
        if self.counts:
            whole = {"tickMinStep": 1, "labelExpr": "datum.value % 1 ? '' : format(datum.value, 'd')"}
            encoding["axis"] = whole
        return encoding | more

    def steps(self, **more: Any) -> dict[str, Any]:
        """Return the encoding by one step for each value, in their order."""
        axis = {"labelOverlap": True, "labelAngle": 0}
        return {"field": self.key, "type": "ordinal", "title": self.name, "axis": axis, **more}

    def colour(self) -> dict[str, Any]:
        """Return the encoding by colour: a ramp of numbers, a palette of names and of few counts."""
        if self.kind == "name":
            return self.named()
        scale = {"scheme": RAMP, **({"type": "log"} if self.kind == "log" else {})}
        return amount(self.key, title=self.name, scale=scale)

    def among(self, meanings: Mapping[str, str]) -> dict[str, Any]:
        """Return the encoding by these values, each with its own colour or shape."""
        return self.named() | {"scale": {"domain": [*meanings], "range": [*meanings.values()]}}

    def named(self) -> dict[str, Any]:
        """Return the encoding by values as names, in the order of the rows."""
        return nominal(self.key, title=self.name, sort=None)


def nominal(field: str, **more: Any) -> dict[str, Any]:
    """Return the encoding of a field of names."""
    return {"field": field, "type": "nominal", **more}


def amount(field: str, **more: Any) -> dict[str, Any]:
    """Return the encoding of a field of numbers."""
    return {"field": field, "type": "quantitative", **more}


def layer(mark: str | Mapping[str, Any], **encoding: Any) -> dict[str, Any]:
    """Return a layer of a chart: what it draws, and by what."""
    return {"mark": mark, "encoding": encoding}


def tips(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Return the encoding of what a pointer shows."""
    return [(nominal if col.kind == "name" else amount)(col.key, title=col.name) for col in columns]


def figure(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    *layers: Mapping[str, Any],
    height: int = HEIGHT,
    drawn: Sequence[Row] | None = None,
) -> Plot:
    """Return a chart of rows with its numbers. `drawn` are the rows of the chart, if not all."""
    spec = chart(columns, rows if drawn is None else drawn, *layers, height=height)
    return Plot(caption, spec, table_of(caption, columns, rows))


def one_of(label: str, charts: Sequence[tuple[str, Plot]]) -> Plot | Alternatives:
    """Return charts of which the reader picks one; a single chart as it is."""
    return charts[0][1] if len(charts) == 1 else Alternatives(label, charts)


def chart(
    columns: Sequence[Column], rows: Sequence[Row], *layers: Mapping[str, Any], height: int = HEIGHT
) -> dict[str, Any]:
    """Return a specification of layers over columns of the same rows, with digits that tell values apart."""
    keys = [spec.key for spec in columns]
    values = [{key: row[key] for key in keys if row.get(key) is not None} for row in rows]
    numbers = {spec.key: [row.get(spec.key) for row in rows] for spec in columns if spec.kind != "name"}
    formats = {key: f".{digits_apart(column, _least(column))}~g" for key, column in numbers.items()}
    ticks = {channel: _tick_format(channel, layers, numbers) for channel in ("x", "y")}
    drawn = [{**layer, "encoding": _formatted(layer["encoding"], formats, ticks)} for layer in layers]
    spec = {"data": {"values": values}, "height": height}
    return {**spec, **drawn[0]} if len(drawn) == 1 else {**spec, "layer": drawn}


def _least(values: Iterable[Any]) -> int:
    """Return the fewest digits of a column; of whole numbers all."""
    finite = [abs(value) for value in values if is_finite(value)]
    whole = all(isinstance(value, int) for value in finite)
    return max(FEWEST, min(len(f"{max(finite, default=0)}"), MOST_DIGITS)) if whole else FEWEST


def _tick_format(channel: str, layers: Iterable[Mapping[str, Any]], numbers: Mapping[str, list[Any]]) -> str:
    """Return the format of the ticks that all layers along an axis share: more digits for close ends."""
    ends = [layer["encoding"].get(end, {}) for layer in layers for end in (channel, f"{channel}2")]
    values = [value for encoding in ends for value in numbers.get(encoding.get("field"), ())]
    finite = [value for value in values if is_finite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    ratio = max(abs(low), abs(high)) / (high - low) if high > low else 0.0
    finest = 3 + math.ceil(math.log10(ratio)) if 0 < ratio < math.inf else 0
    return f".{min(max(finest, _least(finite)), MOST_DIGITS)}~g"


def _formatted(
    encoding: Mapping[str, Any], formats: Mapping[str, str], ticks: Mapping[str, str]
) -> dict[str, Any]:
    """Return an encoding whose numbers are shown in these formats, by the key of a column, and by axis."""
    formatted = {**encoding}
    for channel, field in encoding.items():
        if channel == "tooltip":
            formatted[channel] = [
                tip | {"format": formats[tip["field"]]} if tip["field"] in formats else tip for tip in field
            ]
        elif (form := formats.get(field.get("field"))) is None:
            continue
        elif channel in ticks:
            form = ticks[channel] if field["type"] == "quantitative" else form
            axis = field.get("axis", {})
            if axis is not None and "labelExpr" not in axis:
                formatted[channel] = {**field, "axis": {**axis, "format": form}}
        elif channel == "color" and field["type"] == "nominal":
            formatted[channel] = {**field, "legend": {"format": form}}
    return formatted


def table_of(caption: str, columns: Sequence[Column], rows: Sequence[Row], most: int = ROWS) -> Grid:
    """Return the numbers of a chart."""
    cells = [[cell(row.get(column.key)) for column in columns] for row in rows[:most]]
    return Grid(caption, [column.name for column in columns], cells, max(0, len(rows) - most))


def cell(value: Any) -> Cell:
    """Return a value in a table: lists and mappings as a short text."""
    return value if value is None or isinstance(value, str | int | float | bool) else shown(value)


def kind_of(values: Iterable[Any], *, spaced: bool = True) -> Kind:
    """Return what a column holds: numbers, numbers on a logarithmic scale, or names. Numbers are logarithmic
    where they span two decades and lie more evenly there (`spaced`), or span three of them."""
    distinct = list(dict.fromkeys(value for value in values if value is not None))
    if not distinct or not all(map(is_finite, distinct)):
        return "name"
    numbers = sorted(map(float, distinct))
    if numbers[0] <= 0 or numbers[-1] < WIDE * numbers[0]:
        return "number"
    if not spaced:
        return "log" if numbers[-1] >= 10 * WIDE * numbers[0] else "number"
    return "log" if _unevenness([math.log(number) for number in numbers]) < _unevenness(numbers) else "number"


def _unevenness(numbers: Sequence[float]) -> float:
    """Return the largest gap between neighbours, as a share of the whole."""
    gaps = [after - before for before, after in pairwise(numbers)]
    return max(gaps, default=0.0) / ((numbers[-1] - numbers[0]) or 1.0)


def thinned(values: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many items, evenly chosen, the first and the last among them."""
    if len(values) <= most or most < 2:
        return list(values[: max(most, 0)] if most < 2 else values)
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]


STATES = {
    "done": "#009e73",
    "cached": "#56b4e9",
    "running": "#0072b2",
    "queued": "#b3cde3",
    "ready": "#b3cde3",
    "waiting": "#c4c8cc",
    "failed": "#d55e00",
    "lost": "#e69f00",
    "skipped": "#9aa0a6",
    "cancelled": "#9aa0a6",
    "succeeded": "#009e73",
    "damaged": "#d55e00",
    "interrupted": "#e69f00",
    "pending": "#c4c8cc",
}
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#7a5195", "#7f7f7f")
"""For names without a meaning of their own: stages, trials."""
_NAMED = 24
"""Stages in a legend; a pointer tells the others."""
_SHORT = "length(datum.label) > 20 ? slice(datum.label, 0, 9) + '…' + slice(datum.label, -9) : datum.label"
"""Long names often begin alike: their ends stay."""


def stage_colour(stages: Sequence[str], shown: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the encoding of stages by colour: the same for a stage in each chart of a run."""
    scale = {"domain": list(stages), "range": [_shade(place) for place in range(len(stages))]}
    names = list(stages if shown is None else shown)[:_NAMED]
    legend = {"title": None, "labelExpr": _SHORT, "values": names}
    return nominal("stage", scale=scale, legend=legend)


def _shade(place: int) -> str:
    """Return a colour of the series; once these are used up, the same ones lighter, then greyer."""
    turn, place = divmod(place, len(SERIES))
    if not turn % 3:
        return SERIES[place]
    other = 255 if turn % 3 == 1 else 96  # darker ones would be lost on a dark ground
    parts = (int(SERIES[place][at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{(part + other) // 2:02x}" for part in parts)


LABELS = 130
"""Pixels for the names beside a chart, the same in all whose time axes stand above each other."""


def lasting(seconds: float) -> str:
    """Return a duration: `23 ms`, `4.1s`, `2h 5m`."""
    return f"{1000 * seconds:.3g} ms" if seconds < 0.9995 else format_duration(seconds)


class Clock(NamedTuple):
    """The time axis of a run: since its beginning, in one unit."""

    begin: float
    end: float
    unit: str
    size: float
    """Seconds of the unit."""

    @classmethod
    def over(cls, begin: float, end: float) -> "Clock":
        units = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))
        unit, size = next((pair for pair in units if end - begin > 2 * pair[1]), ("seconds", 1.0))
        return cls(begin, max(end, begin + 1e-3), unit, size)

    def at(self, when: float) -> float:
        """Return a time on the axis."""
        return round((when - self.begin) / self.size, 5)

    def encoding(self, field: str, title: bool = True) -> dict[str, Any]:
        """Return the encoding of x: all charts with it show the same time."""
        axis = {"title": f"{self.unit} since the beginning" if title else None, "labelFlush": True}
        scale = {"domain": [0, self.at(self.end)], "nice": False}
        return amount(field, axis=axis, scale=scale)
