"""Values over several seeds: their mean and scatter for each of the other points, as a table."""

from __future__ import annotations

import math
import sys
from statistics import fmean, stdev
from typing import Any, TypedDict

import diel


class Spread(TypedDict):
    """A row for each point, in the order in which they came."""

    rows: list[dict[str, Any]]
    """The point, `count`, and of each value `NAME` and `NAME_scatter`."""


@diel.module(kind="analysis")
def spread(by: dict[str, list[Any]], **values: list[float]) -> Spread:
    """Print the mean and the standard deviation of values whose points are the same.

    by: the parameters of each value's point by name, without the seed
    values: lists as long as those; one value has no scatter

    Raise ValueError where the lists differ in length.
    """
    lengths = {name: len(column) for name, column in {**by, **values}.items()}
    if len(set(lengths.values())) > 1 or not by or not values:
        raise ValueError(f"expected lists of one length in `by` and beside it; found {lengths}")
    points = [tuple(column[at] for column in by.values()) for at in range(len(next(iter(by.values()))))]
    rows = []
    for point in dict.fromkeys(points):
        places = [place for place, other in enumerate(points) if other == point]
        row: dict[str, Any] = {**dict(zip(by, point, strict=True)), "count": len(places)}
        for name, column in values.items():
            sample = [column[place] for place in places]
            row[name] = fmean(sample)
            row[f"{name}_scatter"] = stdev(sample) if len(sample) > 1 else 0.0
        rows.append(row)
    cells = [[*by, *values]]
    for row in rows:
        shown = [_text(row[name], row[f"{name}_scatter"]) for name in values]
        cells.append([*(str(row[name]) for name in by), *shown])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        sys.stdout.write("  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)) + "\n")
    return {"rows": rows}


def _text(mean: float, scatter: float) -> str:
    """Return a value with as many decimals as its scatter has meaning."""
    if scatter == 0 or not math.isfinite(scatter):
        return f"{mean:.4g}"
    decimals = max(0, 1 - math.floor(math.log10(scatter)))
    return f"{mean:.{decimals}f} ± {scatter:.{decimals}f}"
