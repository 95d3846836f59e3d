"""The panel of hyperparameters: each value, and where it came from."""

from __future__ import annotations

from collections.abc import Iterator

from diel.page.panel import Cell, Grid, Part
from diel.page.plot import cell
from diel.page.seen import Seen
from diel.registry import kept_values
from diel.spec import Hyperparameter
from diel.table import shown


def parts(seen: Seen) -> Iterator[Part]:
    workflow, values = seen.run.workflow, kept_values(seen.run.run_file).values
    rows: list[list[Cell]] = []
    for name, given in workflow.hyperparameters.items():
        held = values.get(name)
        searched = [label for label, axis in workflow.axes.items() if name in axis.sets]
        source = f"search: {', '.join(searched)}" if searched else ""
        if held is not None and not searched:
            source = ": ".join(filter(None, (held.origin, held.source)))
        value = None if held is None or searched else cell(held.value)
        rows.append([f"hp.{name}", value, source, _allowed(given), cell(given.default), given.description])
    if rows:
        heads = ("name", "value", "where it came from", "allowed", "default", "description")
        yield Grid("Hyperparameters", heads, rows)


def _allowed(given: Hyperparameter) -> str:
    if given.choices is not None:
        return " | ".join(map(shown, given.choices))
    bounds = [given.low, given.high]
    if bounds == [None, None]:
        return given.type
    low, high = ("…" if end is None else shown(end) for end in bounds)
    return f"{given.type}, {low} to {high}{', log' if given.log else ''}"
