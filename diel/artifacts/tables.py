"""Tables: CSV and JSON lines files, held to their contract in one pass from the first row to the last."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

from diel.artifacts.values import is_of
from diel.errors import ModuleError
from diel.spec.contract import Contract, fits_count, told_count

_JSON_LINES = (".jsonl", ".ndjson")


class Misfit(Exception):
    """What a file is against its contract; the output's name is put in front."""


def check_table(name: str, path: str, contract: Contract) -> None:
    """Reads a table row by row. Raises ModuleError with the first thing that is not as promised."""
    file = os.path.basename(path)
    try:
        rows = (_json_rows if path.endswith(_JSON_LINES) else _csv_rows)(path, contract)
    except Misfit as misfit:
        raise ModuleError(f"output '{name}': {file}{misfit}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise ModuleError(f"output '{name}': {file} cannot be read as a table: {error}") from error
    if contract.rows is not None and not fits_count(contract.rows, rows):
        raise ModuleError(f"output '{name}': {file} has {rows} rows; expected {told_count(contract.rows)}")


# --- CSV ------------------------------------------------------------------------------------------


def _csv_rows(path: str, contract: Contract) -> int:
    rows = 0
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t" if path.endswith(".tsv") else ",")
        header = next((row for row in reader if row), None)
        if header is None:
            raise Misfit(" is empty; expected a header with the columns' names")
        checks = _checks([cell.strip() for cell in header], contract)
        for row in reader:
            if not row:
                continue
            rows += 1
            try:
                for place, read, _ in checks:
                    read(row[place])
            except (ValueError, IndexError):
                raise Misfit(f", row {rows} (line {reader.line_num}): {_told(row, checks)}") from None
    return rows


Check = tuple[int, Callable[[str], Any], tuple[str, str]]
"""Where a cell stands, what refuses a bad one with ValueError, the column and the type for a message."""


def _checks(header: list[str], contract: Contract) -> list[Check]:
    if contract.columns is None:
        return (
            [(place, _any_finite, (name, "")) for place, name in enumerate(header)] if contract.finite else []
        )
    for column in contract.columns:
        if column not in header:
            raise Misfit(f" has no column '{column}'; it has: {', '.join(header)}")
    readers: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": _truth, "str": str}
    if contract.finite:
        readers["float"] = _finite
    wanted = (
        (header.index(column), readers[kind], (column, kind)) for column, kind in contract.columns.items()
    )
    return list(wanted)


def _told(row: list[str], checks: list[Check]) -> str:
    """What is wrong with a row."""
    for place, read, (column, kind) in checks:
        if place >= len(row):
            return f"it has {len(row)} cells, and none for {column}"
        try:
            read(row[place])
        except ValueError:
            cell = row[place]
            if kind in ("float", "") and _is_number(cell):
                return f"{column} is {cell.strip()}; expected a finite number"
            return f"{column} is {cell!r}; expected {kind}"
    raise AssertionError("a row that was refused has a flaw")


def _finite(cell: str) -> None:
    if not math.isfinite(float(cell)):
        raise ValueError(cell)


def _any_finite(cell: str) -> None:
    """Refuses a number that is not finite; what is no number says nothing."""
    if _is_number(cell):
        _finite(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _truth(cell: str) -> None:
    if cell.strip().lower() not in ("true", "false", "0", "1"):
        raise ValueError(cell)


# --- JSON lines -----------------------------------------------------------------------------------


def _json_rows(path: str, contract: Contract) -> int:
    rows = 0
    for number, row in _objects(path):
        rows += 1
        for column, kind in (contract.columns or {}).items():
            if column not in row:
                raise Misfit(
                    f", line {number}: no '{column}'; it has: {', '.join(map(str, row)) or 'nothing'}"
                )
            if not is_of(row[column], kind):
                raise Misfit(f", line {number}: {column} is {row[column]!r}; expected {kind}")
        if contract.finite and (odd := not_finite(row)) is not None:
            raise Misfit(f", line {number}: {odd}; expected a finite number")
    return rows


def _objects(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise Misfit(f", line {number}: no JSON: {error}") from None
            if not isinstance(row, dict):
                raise Misfit(f", line {number}: {type(row).__name__}; expected a JSON object")
            yield number, row


def not_finite(value: Any, place: str = "") -> str | None:
    """The first number in a JSON value that is NaN or infinite, with its place; None where there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{place or 'the value'} is {value}"
    if isinstance(value, dict):
        items = ((f"{place}.{key}" if place else str(key), item) for key, item in value.items())
    elif isinstance(value, list):
        items = ((f"{place}[{number}]", item) for number, item in enumerate(value))
    else:
        return None
    return next((odd for where, item in items if (odd := not_finite(item, where)) is not None), None)
