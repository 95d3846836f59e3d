"""Columns of cells: their types are declared, or are those of all cells together, never of one cell."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from diel.base.values import BENEATH, BEYOND, LARGEST, SMALLEST, cell_value, is_not_zero

_PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
"""A number, and hardly an id. All else is text: `007`, `+5`, `0x10`, `1_000`, `.5`, `1.`, ` 7 `, nothing."""
QUOTED = "\ud800"
"""Stands for an empty cell in quotes, where this is told from a missing one; no UTF-8 holds it."""
_MISSING = dict.fromkeys(("", QUOTED))
_ODD = {**_MISSING, **{cell: float(cell) for cell in ("nan", "NaN", "NAN", "inf", "Inf", "-inf", "-Inf")}}
"""Cells beside numbers in columns of numbers."""


class BadCell(ValueError):
    """A cell that is no value of its column's type."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def column_values(cells: Sequence[str], kind: str | None) -> list[Any]:
    """Return a column as values of its type, else as numbers of 64 bits, else as texts. Raise BadCell."""
    if kind is None:
        return _numbers(cells) if cells and all(map(_PLAIN.fullmatch, cells)) else list(cells)
    values = []
    for row, cell in enumerate(cells):
        try:
            values.append(cell_value(cell, kind))
        except ValueError:
            size = " of at most 64 bits (a longer id is a str)" if kind == "int" else ""
            raise BadCell(row, f"{cell!r:.60}; expected {kind}{size}") from None
    return values


def table_values(cells: Sequence[str], kind: str | None) -> list[Any]:
    """Return values for a table in memory: empty cells are missing, but for declared or quoted texts."""
    odd = _ODD if kind is None else {} if kind == "str" else _MISSING
    rows = [row for row, cell in enumerate(cells) if cell not in odd]
    try:
        values = column_values([cells[row] for row in rows] if len(rows) < len(cells) else cells, kind)
    except BadCell as error:
        raise BadCell(rows[error.row], str(error)) from None
    if values and kind is None and {*values} <= {"True", "False"}:
        values = [value == "True" for value in values]
    if isinstance(values[0], str) if values else kind is None and QUOTED in cells:
        texts = {"": "" if kind else None, QUOTED: ""}
        return [texts.get(cell, cell) for cell in cells]
    made = iter(values)
    return [odd[cell] if cell in odd else next(made) for cell in cells]


def _numbers(cells: Sequence[str]) -> list[Any]:
    """Return numbers of one type; texts, if it does not hold an integer. Raise BadCell beyond a double."""
    try:
        values = [int(cell) if cell.lstrip("-").isdigit() else float(cell) for cell in cells]
    except ValueError:  # thousands of digits
        return list(cells)
    low, high = min(values), max(values)
    if high == math.inf or low == -math.inf:
        row = values.index(high if high == math.inf else low)
        raise BadCell(row, f"{cells[row]:.60}: {BEYOND}")
    for row, value in enumerate(values):
        if value == 0 and is_not_zero(cells[row]):
            raise BadCell(row, f"{cells[row]:.60}: {BENEATH}")
    beyond = low < SMALLEST or high > LARGEST
    if beyond and any(isinstance(value, int) and not SMALLEST <= value <= LARGEST for value in values):
        return list(cells)
    if float in map(type, values) and int in map(type, values):
        floats = [float(cell) for cell in cells]
        return floats if floats == values else list(cells)
    return values


def lost_spelling(cells: Iterable[str], values: Iterable[Any]) -> tuple[str, Any] | None:
    """Return the first cell whose number loses its spelling, as `1.10` becomes 1.1, with that number."""
    for cell, value in zip(cells, values, strict=True):
        if not isinstance(value, str) and repr(value) != cell:
            return cell, value
    return None
