"""Tables: CSV and JSON lines files, held to their contract in one pass from the first row to the last."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from diel.artifacts.values import is_of, listed, not_finite, shown
from diel.errors import ModuleError, counted
from diel.terms import count_words, fits_count

if TYPE_CHECKING:
    from diel.spec.contract import Contract

_JSON_LINES = (".jsonl", ".ndjson")


class Breach(Exception):
    """What a file is against its contract; the output's name is put in front."""


def check_table(name: str, path: str, contract: Contract) -> None:
    """Reads a table row by row. Raises ModuleError with the first thing that is not as promised."""
    file = os.path.basename(path)
    try:
        rows = (_json_rows if path.lower().endswith(_JSON_LINES) else _csv_rows)(path, contract)
    except Breach as breach:
        raise ModuleError(f"output '{name}': {file}{breach}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise ModuleError(f"output '{name}': {file} cannot be read as a table: {error}") from error
    if contract.rows is not None and not fits_count(contract.rows, rows):
        raise ModuleError(
            f"output '{name}': {file} has {counted(rows, 'row')}; expected {count_words(contract.rows)}"
        )


def _csv_rows(path: str, contract: Contract) -> int:
    rows = 0
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t" if path.lower().endswith(".tsv") else ",")
        header = next((row for row in reader if row), None)
        if header is None:
            raise Breach(" is empty; expected a header with the columns' names")
        checks, width = _checks([cell.strip() for cell in header], contract), len(header)
        for row in reader:
            if not row:
                continue
            rows += 1
            try:
                for place, read, _ in checks:
                    read(row[place])
            except (ValueError, IndexError):
                raise Breach(f", row {rows} (line {reader.line_num}): {_wrong(row, checks)}") from None
            if len(row) > width:
                wrong = f"it has {len(row)} cells, and the header {width}"
                raise Breach(f", row {rows} (line {reader.line_num}): {wrong}")
    return rows


Check = tuple[int, Callable[[str], Any], tuple[str, str]]
"""Where a cell stands, what refuses a bad one with ValueError, the column and the type for a message."""


def _checks(header: list[str], contract: Contract) -> list[Check]:
    columns = contract.columns or {}
    for column in columns:
        if header.count(column) != 1:
            has = f"{header.count(column)} columns" if column in header else "no column"
            raise Breach(f" has {has} '{column}'; it has: {listed(header)}")
    readers: dict[str, Callable[[str], Any]] = {"int": partial(_number, kind=int), "bool": _truth, "str": str}
    readers["float"] = _finite if contract.finite else _number
    checks: list[Check] = [
        (header.index(name), readers[kind], (name, kind)) for name, kind in columns.items()
    ]
    if contract.finite:
        others = ((place, name) for place, name in enumerate(header) if name not in columns)
        checks += [(place, _any_finite, (name, "")) for place, name in others]
    return checks


def _wrong(row: list[str], checks: list[Check]) -> str:
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
            return f"{column} is {shown(cell)}; expected {kind}"
    raise AssertionError("a row that was refused has a flaw")


def _number(cell: str, kind: Callable[[str], float] = float) -> float:
    """As other programs read it: Python alone takes `1_000`, and digits of other scripts."""
    if "_" in cell or not cell.isascii():
        raise ValueError(cell)
    return kind(cell)


def _finite(cell: str) -> None:
    if not math.isfinite(_number(cell)):
        raise ValueError(cell)


def _any_finite(cell: str) -> None:
    """Refuses a number that is not finite; what is no number says nothing."""
    if _is_number(cell):
        _finite(cell)


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True


def _truth(cell: str) -> None:
    if cell.strip().lower() not in ("true", "false", "0", "1"):
        raise ValueError(cell)


def _json_rows(path: str, contract: Contract) -> int:
    rows = 0
    for number, row in _objects(path):
        rows += 1
        for column, kind in (contract.columns or {}).items():
            if column not in row:
                raise Breach(f", line {number}: no '{column}'; it has: {listed(row)}")
            if not is_of(row[column], kind):
                raise Breach(f", line {number}: {column} is {shown(row[column])}; expected {kind}")
        if contract.finite and (odd := not_finite(row)) is not None:
            raise Breach(f", line {number}: {odd}; expected a finite number")
    return rows


def _objects(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise Breach(f", line {number}: no JSON: {error}") from None
            if not isinstance(row, dict):
                raise Breach(f", line {number}: {type(row).__name__}; expected a JSON object")
            yield number, row
