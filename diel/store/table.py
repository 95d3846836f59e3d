"""A table of results, and how it is printed: for people, as CSV, as a Parquet file."""

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diel.base.errors import DielError
from diel.base.values import LEAST_DIGITS, MOST_DIGITS, clock, column_digits, number_text, spelled
from diel.store.artifacts import Artifact

NARROW = 40
"""Characters of a cell that are shown; CSV and JSON have all."""


class Moment(float):
    """Seconds since the epoch, which people see as a date; CSV and JSON have the number."""


@dataclass(frozen=True)
class Listing:
    """Columns with names, rows of JSON values; an artifact is the path of its file."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    missing: Mapping[str, str]
    """By stage, how many of its tasks have no result, and why: their rows are missing."""
    audits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By stage, what audits found of the answers among its results."""

    def mappings(self) -> Iterator[dict[str, Any]]:
        """Return the rows as mappings."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


def csv_text(table: Listing) -> str:
    """Return a table as CSV: lists and mappings as JSON, null as nothing, true and false as they are."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    rows = (
        [json.dumps(v, ensure_ascii=False) if isinstance(v, list | dict | bool) else v for v in row]
        for row in table.rows
    )
    writer.writerows(rows)
    return file.getvalue()


def write_parquet(table: Listing, path: Path) -> list[str]:
    """Write a table as a Parquet file; return which columns became texts, and why. Raise DielError where
    pyarrow is absent or the file cannot be written."""
    try:
        import pyarrow  # an extra, and slow to import: only when a file is wanted
        from pyarrow import parquet
    except ImportError as error:
        raise DielError("--parquet needs pyarrow: pip install 'diel[tables]'") from error
    columns = {name: [row[place] for row in table.rows] for place, name in enumerate(table.columns)}
    notes: list[str] = []
    arrays = {name: _arrow_column(pyarrow, name, values, notes) for name, values in columns.items()}
    try:
        parquet.write_table(pyarrow.table(arrays), path)
    except OSError as error:
        raise DielError(f"cannot write {path}: {error.strerror or error}") from error
    return notes


def _arrow_column(pyarrow: Any, name: str, values: list[Any], notes: list[str]) -> Any:
    plain = [str(value) if type(value) is Artifact else value for value in values]
    for kind in (None, pyarrow.uint64()):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            array = pyarrow.array(plain, kind)
            if "struct<>" not in str(array.type) and _plain(array.to_pylist()) == _plain(plain):
                return array
    kinds = " and ".join(sorted({type(value).__name__ for value in plain} - {"NoneType"}))
    known = {"int": "whole numbers beyond 64 bits", "float and int": "floats, and whole numbers beyond 2^53"}
    why = known.get(kinds, f"{kinds}, no one type for all")
    notes.append(f"column '{name}' is text: it holds {why}")
    texts = (
        value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False) for value in plain
    )
    return pyarrow.array(list(texts), pyarrow.string())


def _plain(values: list[Any]) -> str:
    """Return JSON values as a text in which whole numbers are floats."""
    return json.dumps(json.loads(json.dumps(values), parse_int=float))


def render(table: Listing, *, width: int = NARROW) -> Iterator[str]:
    """Yield the lines of a table for people: numbers in digits that tell them apart; long cells cut."""
    cells = texts(table.rows, width)
    right = [
        bool(table.rows) and all(_is_number(row[place]) or row[place] is None for row in table.rows)
        for place in range(len(table.columns))
    ]
    widths = [
        max([len(name), *(len(row[place]) for row in cells)]) for place, name in enumerate(table.columns)
    ]
    for line in ([*table.columns], ["─" * size for size in widths], *cells):
        padded = [
            text.rjust(size) if to_right else text.ljust(size)
            for text, size, to_right in zip(line, widths, right, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def texts(rows: Sequence[Sequence[Any]], width: int = NARROW, least: int = LEAST_DIGITS) -> list[list[str]]:
    """Return the cells of rows as people read them: floats in as many digits as tell them apart."""
    digits = column_digits([*zip(*rows, strict=True)], least)
    return [[shown(cell, width, places) for cell, places in zip(row, digits, strict=True)] for row in rows]


def shown(value: Any, width: int = NARROW, digits: int = MOST_DIGITS) -> str:
    """Return a value for people, on one line of at most `width` characters; no path or number is cut."""
    if value is None:
        return ""
    if type(value) is Artifact:
        return short_path(value)
    if isinstance(value, Moment):
        return clock(value)
    if isinstance(value, float):
        return number_text(value, digits)
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list | dict) else str(value)
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[: width + 1])
    return text if len(text) <= width else f"{text[: width - 1]}…"


def short_path(path: str) -> str:
    """Return a path relative to the current directory if it is below it, else the full path."""
    here = os.getcwd()
    return os.path.relpath(path, here) if path.startswith(here.rstrip("/") + "/") else path


def allowed_text(choices: Sequence[Any] | None, low: Any, high: Any, *, log: bool) -> str:
    """Return what a hyperparameter may be: `a | b`, `0.1 to 10, log`; empty without bounds."""
    if choices is not None:
        return " | ".join(spelled(choices))
    if low is None and high is None:
        return ""
    ends = ("…" if end is None else shown(end) for end in (low, high))
    return " to ".join(ends) + (", log" if log else "")
