"""A table on standard output."""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypedDict

from pydantic import Field

import diel


class Table(TypedDict):
    """The rows as they were printed."""

    rows: list[dict[str, Any]]
    count: int


@diel.module(kind="analysis")
def table(
    sort: str | None = None, digits: Annotated[int, Field(ge=1, le=17)] = 4, **columns: list[Any]
) -> Table:
    """Print its inputs side by side: each is a column, a list as long as the others.

    sort: the column to sort the rows by, smallest first; as they came where absent
    digits: significant digits of numbers with a fraction

    Raise ValueError where the columns differ in length, and where there is no column `sort`.
    """
    if not columns:
        raise ValueError("expected columns: give the stage `inputs` or `params` that are lists")
    counts = {name: len(values) for name, values in columns.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the columns differ in length: {counts}")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if sort is not None:
        if sort not in columns:
            raise ValueError(f"no column '{sort}' to sort by; the columns are {', '.join(columns)}")
        rows.sort(key=lambda row: row[sort])
    cells = [list(columns)]
    for row in rows:
        values = [row[name] for name in columns]
        cells.append([f"{v:.{digits}g}" if isinstance(v, float) else str(v) for v in values])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        words = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(words) + "\n")
    return {"rows": rows, "count": len(rows)}
