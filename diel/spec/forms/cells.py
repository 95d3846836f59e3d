"""Cells of a table as values: of their column's declared type, or numbers where all are plain ones."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from diel.values import BEYOND, LARGEST, SMALLEST, cell_value

_PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
"""A number, and hardly an id. All else is text: `007`, `+5`, `0x10`, `1_000`, `.5`, `1.`, ` 7 `, nothing."""
_KEPT = re.compile(r"(0|-?[1-9][0-9]{0,7})(\.([0-9]|[1-9][0-9]{0,4}[1-9]))?")
"""Numbers that are surely written as they were: a quick way past most."""
_ODD = {
    "": None,
    **dict.fromkeys(("nan", "NaN", "NAN"), math.nan),
    **dict.fromkeys(("inf", "Inf"), math.inf),
    **dict.fromkeys(("-inf", "-Inf"), -math.inf),
}
"""What stands in columns of numbers beside them."""


class BadCell(ValueError):
    """A cell that is no value of its column's type."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def column_values(cells: Sequence[str], kind: str | None) -> list[Any]:
    """The values of a column: of its declared type; without one numbers if all cells are plain ones that
    64 bits hold, else the texts as they are written.

    Raises BadCell for what is not of the type, and a number beyond a double.
    """
    if kind is None:
        return _numbers(cells) if all(map(_PLAIN.fullmatch, cells)) else list(cells)
    values = []
    for row, cell in enumerate(cells):
        try:
            values.append(cell_value(cell, kind))
        except ValueError:
            raise BadCell(row, f"{cell!r:.60}; expected {kind}") from None
    return values


def table_values(cells: Sequence[str], kind: str | None) -> list[Any]:
    """The same for a table in memory: there an empty cell of a column of numbers is missing, `nan` and `inf`
    are numbers, and a column of True and False has truths. Raises BadCell."""
    words = {*cells}
    if kind is None and words <= {"True", "False"}:
        return [cell == "True" for cell in cells]
    aside = {cell: _ODD[cell] for cell in words & (_ODD.keys() if kind is None else {""})}
    if not aside or kind == "str" or len(aside) == len(words):
        return column_values(cells, kind)
    filled = [(row, cell) for row, cell in enumerate(cells) if cell not in aside]
    try:
        values = column_values([cell for _, cell in filled], kind)
    except BadCell as error:
        raise BadCell(filled[error.row][0], str(error)) from None
    if kind is None and isinstance(values[0], str):
        return list(cells)
    numbers = iter(values)
    return [aside[cell] if cell in aside else next(numbers) for cell in cells]


def _numbers(cells: Sequence[str]) -> list[Any]:
    """Plain numbers; the texts, if one is a whole number beyond 64 bits. Raises BadCell beyond a double."""
    try:
        values = [int(cell) if cell.lstrip("-").isdigit() else float(cell) for cell in cells]
    except ValueError:  # thousands of digits
        return list(cells)
    low, high = min(values), max(values)
    if high == math.inf or low == -math.inf:
        row = values.index(high if high == math.inf else low)
        raise BadCell(row, f"{cells[row]:.60}: {BEYOND}")
    beyond = low < SMALLEST or high > LARGEST
    if beyond and any(isinstance(one, int) and not SMALLEST <= one <= LARGEST for one in values):
        return list(cells)
    return values


def lost_spelling(cells: Iterable[str], values: Iterable[Any]) -> tuple[str, Any] | None:
    """The first cell whose number is written otherwise than it was, as 1.1 for `1.10`, with that number."""
    for cell, value in zip(cells, values, strict=True):
        if not isinstance(value, str) and not _KEPT.fullmatch(cell) and repr(value) != cell:
            return cell, value
    return None


def types_of(column: Iterable[Any]) -> str:
    """The types of a column's values in words: `float` for whole and other numbers, `int or null`."""
    words = {"null" if value is None else type(value).__name__ for value in column}
    if "float" in words:
        words.discard("int")
    return " or ".join(sorted(words, key=lambda word: (word == "null", word))) or "nothing"
