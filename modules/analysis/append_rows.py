"""A training set that grows."""

from __future__ import annotations

from typing import TypedDict

import diel


class Rows(TypedDict):
    """The old rows, then the new ones."""

    columns: dict[str, list[float]]
    count: int


@diel.module(kind="analysis")
def append_rows(before: dict[str, list[float]], new: dict[str, list[float]]) -> Rows:
    """Append rows to a table that is given as columns.

    before: lists of equal length by name
    new: further values of the same columns

    Raise ValueError where the columns are not the same or differ in length.
    """
    if before.keys() != new.keys():
        raise ValueError(f"the table has the columns {', '.join(before)}; the new rows have {', '.join(new)}")
    columns = {name: [*values, *new[name]] for name, values in before.items()}
    counts = {name: len(values) for name, values in columns.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the columns differ in length: {counts}")
    return {"columns": columns, "count": next(iter(counts.values()), 0)}
