"""A trend as lines for people, as a table, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from diel.comparison.lines import change_text
from diel.comparison.trend import ENOUGH, Measure, Trend
from diel.status.columns import columns, paint, paint_state, printable
from diel.table import Listing, texts
from diel.values import clock, format_duration

_BARS = "▁▂▃▄▅▆▇█"
SHOWN = 24
"""The most runs of a line of bars, and rows of the list of runs."""


def sparkline(values: Sequence[float | None]) -> str:
    """The values as bars from the least to the most; a dot where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        "·" if value is None else _BARS[round((value - low) * scale) if scale else 3] for value in values
    )


def trend_lines(trend: Trend) -> Iterator[str]:
    """The runs, then a line for each figure: the usual value, the last, how far apart, bars over time."""
    rows = [["run", "began", "state", "took", "done", "cached", "failed"]]
    for one in trend.runs[-SHOWN:]:
        took = "" if one.seconds is None else format_duration(one.seconds)
        counts = [f"{one.tasks.get(state, 0):,}" for state in ("done", "cached", "failed")]
        rows.append([one.run, clock(one.began), paint_state(one.state), took, *counts])
    yield from columns(rows, right=(3, 4, 5, 6))
    if len(trend.runs) > SHOWN:
        yield f"and {len(trend.runs) - SHOWN:,} before these"
    for group in dict.fromkeys(one.group for one in trend.measures):
        yield ""
        head = [group or "figure", "median", "last", "change", "over time"]
        found = [one for one in trend.measures if one.group == group]
        figures = texts([(one.known[-1] if one.usual is None else one.usual, one.known[-1]) for one in found])
        yield from columns([head, *map(_row, found, figures)], right=(1, 2, 3))
    if trend.measures and len(trend.runs) <= ENOUGH:
        yield ""
        yield paint(f"beyond the scatter: told once {ENOUGH} runs came before", dim=True)
    yield from (paint(f"left out: {printable(note)}", fg="yellow") for note in trend.notes)


def _row(one: Measure, figures: Sequence[str]) -> list[str]:
    change = change_text(one.usual, one.known[-1])
    said = sparkline(one.values[-SHOWN:])
    said += paint("  beyond the scatter", fg="red", bold=True) if one.is_beyond else ""
    return [f"  {printable(one.name)}", *figures, change, said]


def trend_table(trend: Trend) -> Listing:
    """A row for each run, a column for each figure."""
    names = tuple(one.name for one in trend.measures)
    columns_ = list(zip(*(one.values for one in trend.measures), strict=True)) or [()] * len(trend.runs)
    rows: list[tuple[Any, ...]] = [
        (one.run, one.began, one.state, one.seconds, *(one.tasks.get(s, 0) for s in _STATES), *values)
        for one, values in zip(trend.runs, columns_, strict=True)
    ]
    return Listing(("run", "began", "state", "took_s", *_STATES, *names), rows, {})


_STATES = ("done", "cached", "failed")


def trend_document(trend: Trend) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "workflow": trend.workflow,
        "runs": list(trend_table(trend._replace(measures=())).mappings()),
        "measures": {
            one.name: {
                "group": one.group or None,
                "values": list(one.values),
                "change": one.change,
                "beyond": one.is_beyond,
            }
            for one in trend.measures
        },
        "notes": list(trend.notes),
    }
