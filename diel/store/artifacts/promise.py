"""Checks what a task made against its contract, before anybody reads it."""

import csv
import math
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from diel.base.errors import counted
from diel.base.terms import ABOUT, count_words, fits_count, format_of, shown_shape
from diel.base.values import BENEATH, BEYOND, cell_value, read_json
from diel.store.artifacts.artifact import Breach, files_below
from diel.store.artifacts.values import is_of, listed, not_finite, shown

if TYPE_CHECKING:
    import numpy

    from diel.workflow.models import Output
    from diel.workflow.models.contract import Contract

Sizes = dict[str, tuple[int, str]]
"""The sizes behind names such as `n` in one task, each with the first output that set it."""
_WORDS = {"table": "a table", "array": "an array", "json": "a JSON object", "files": "a directory"}
_JSON_LINES = (".jsonl", ".ndjson")


def check_path(name: str, path: str, contract: "Output", sizes: Sizes) -> None:
    """Hold a file or directory to its contract. Raise Breach with the fault."""
    promised = contract.promises
    if not promised or promised == ("units",):
        return
    file = os.path.basename(path)
    if os.path.isdir(path):
        if contract.files is None:
            raise Breach(f"{file} is a directory; its contract is about a file")
        hold_count(contract.files, file, len(files_below(path)), "file")
        return
    if contract.files is not None:
        raise Breach(f"{file} is a file; expected a directory of files")
    meant = "array" if contract.dtype is not None or contract.shape is not None else None
    match format_of(path) or ("table" if contract.columns is not None else meant):
        case "array":
            _check_array_file(name, path, contract, sizes)
        case "json":
            _check_json_file(path, contract)
        case "table":
            _refuse_other(file, contract, "table", "a table")
            check_table(path, contract)
        case _:
            kinds = ", ".join(f"`{promise}`" for promise in promised if promise != "units")
            raise Breach(f"{file} is not a file in which {kinds} can be checked")


def _refuse_other(file: str, contract: "Contract", fitting: str, what: str) -> None:
    """Refuse data of a kind that the contract is not about."""
    expected = _other(contract, fitting)
    if expected is not None:
        raise Breach(f"{file} is {what}; expected {expected}")


def _other(contract: "Contract", fitting: str) -> str | None:
    """Name the subject of a contract, if that is not the fitting kind of data."""
    subject = next((ABOUT[promise] for promise in contract.promises if promise in ABOUT), fitting)
    return None if subject == fitting else _WORDS[subject]


def hold_count(bound: str | None, what: str, number: int, noun: str, also: str = "") -> None:
    """Hold a number of files or rows to what is promised. Raise Breach."""
    if bound is not None and not fits_count(bound, number):
        raise Breach(f"{what} has {counted(number, noun)}{also}; expected {count_words(bound)}")


def _check_array_file(name: str, path: str, contract: "Output", sizes: Sizes) -> None:
    file = os.path.basename(path)
    try:
        import numpy  # here: commands make arrays even if no module has loaded it

        from diel.store.artifacts.arrays import check_finite, read_header  # it needs NumPy

        header = read_header(path)
    except ImportError:
        raise Breach("to check an array takes numpy: pip install numpy") from None
    except ValueError as error:
        raise Breach(f"{file} holds no array: {error}") from error
    shape, dtype = header.shape, header.dtype
    if dtype.hasobject:
        raise Breach(f"{file} holds pickled Python objects, which no stage can read")
    check_kind(name, file, shape, dtype, contract, sizes)
    items: int = math.prod(shape)
    needed = header.offset + items * dtype.itemsize
    size = os.path.getsize(path)
    if size < needed:
        raise Breach(f"{file} is cut short: {size} bytes of {needed}")
    if contract.finite and items:
        check_finite(file, numpy.load(path, mmap_mode="r", allow_pickle=False))


def check_kind(
    name: str, what: str, shape: tuple[int, ...], dtype: "numpy.dtype[Any]", contract: "Output", sizes: Sizes
) -> None:
    """Hold the kind of an array to its contract. Raise Breach with the fault."""
    _refuse_other(what, contract, "array", "an array")
    kind = "str" if dtype.kind in "USTO" else dtype.name
    if contract.dtype is not None and kind != contract.dtype:
        raise Breach(f"{what} is {kind}; expected {contract.dtype}")
    rows = shape[0] if shape else 0
    hold_count(contract.rows, what, rows, "row", f" (shape {shown_shape(shape)})")
    if contract.shape is not None:
        _check_shape(name, what, shape, contract.shape, sizes)


def _check_shape(
    name: str, what: str, shape: tuple[int, ...], pattern: tuple[int | str, ...], sizes: Sizes
) -> None:
    fits = len(shape) == len(pattern) and all(
        not isinstance(length, int) or length == size for length, size in zip(pattern, shape, strict=True)
    )
    if not fits:
        expected = f"expected {shown_shape(pattern)}"
        raise Breach(f"{what} has shape {shown_shape(shape)}; {expected}")
    for length, size in zip(pattern, shape, strict=True):
        if isinstance(length, str) and length != "*":
            bound, owner = sizes.setdefault(length, (size, name))
            if bound != size:
                has = f"shape {shown_shape(shape)}, so {length} is {size}"
                where = "too" if owner == name else f"of '{owner}'"
                raise Breach(f"{what} has {has}; it is {bound} {where}")


def _check_json_file(path: str, contract: "Output") -> None:
    file = os.path.basename(path)
    _refuse_other(file, contract, "json", "JSON")
    try:
        with open(path, encoding="utf-8-sig") as opened:
            value = read_json(opened.read())
    except (ValueError, RecursionError) as error:
        raise Breach(f"{file} holds no JSON: {error}") from error
    check_value(value, contract, file)


def check_value(value: Any, contract: "Output", what: str = "the value") -> None:
    """Hold a JSON value to its contract. Raise Breach with the fault."""
    other = _other(contract, "json")
    if other is not None:
        raise Breach(f"{shown(value)} is a value; expected {other}")
    if contract.keys is not None:
        if not isinstance(value, dict):
            raise Breach(f"{what} is {shown(value)}; expected a JSON object")
        for key, kind in contract.keys.items():
            if key not in value:
                raise Breach(f"{what} has no key '{key}'; it has: {listed(value)}")
            if not is_of(value[key], kind):
                raise Breach(f"{key} is {shown(value[key])}; expected {kind}")
    if contract.finite and (odd := not_finite(value)) is not None:
        raise Breach(f"{odd}; expected a finite number")


Check = tuple[int, Callable[[str], Any], str, str]
"""The place of a cell, what refuses a bad one with ValueError, the column and the type for a message."""


def check_table(path: str, contract: "Contract") -> None:
    """Read a table row by row. Raise Breach with the first thing that is not as promised."""
    file = os.path.basename(path)
    try:
        rows = (_json_rows if path.lower().endswith(_JSON_LINES) else _csv_rows)(path, contract)
    except Breach as breach:
        raise Breach(f"{file}{breach}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise Breach(f"{file} cannot be read as a table: {error}") from error
    hold_count(contract.rows, file, rows, "row")


def _csv_rows(path: str, contract: "Contract") -> int:
    rows, kind, cell = 0, "", ""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t" if path.lower().endswith(".tsv") else ",", strict=True)
        header = next((row for row in reader if row), None)
        if header is None:
            raise Breach(" is empty; expected a header with the columns' names")
        checks = _checks([cell.strip() for cell in header], contract)
        for row in filter(None, reader):
            rows += 1
            try:
                if len(row) != len(header):
                    raise Breach(f"it has {len(row)} cells, and the header {len(header)}")
                for check in checks:
                    place, read, column, kind = check
                    read(cell := row[place])
            except Breach as breach:
                raise Breach(f", row {rows} (line {reader.line_num}): {breach}") from None
            except ValueError:
                expected = "a finite number" if kind in ("float", "") and _is_number(cell) else kind
                wrong = f"{column} is {shown(cell)}; expected {expected}"
                raise Breach(f", row {rows} (line {reader.line_num}): {wrong}") from None
    return rows


def _checks(header: list[str], contract: "Contract") -> list[Check]:
    columns = contract.columns or {}
    for column in columns:
        if header.count(column) != 1:
            has = f"{header.count(column)} columns" if column in header else "no column"
            raise Breach(f" has {has} '{column}'; it has: {listed(header)}")
    checks: list[Check] = []
    for name, kind in columns.items():
        finite = contract.finite and kind == "float"
        read = _finite if finite else str if kind == "str" else partial(cell_value, kind=kind)
        checks.append((header.index(name), read, name, kind))
    if contract.finite:
        unnamed = ((place, name) for place, name in enumerate(header) if name not in columns)
        checks += [(place, _any_finite, name, "") for place, name in unnamed]
    return checks


def _finite(cell: str) -> None:
    if not math.isfinite(cell_value(cell, "float")):
        raise ValueError(cell)


def _any_finite(cell: str) -> None:
    if _is_number(cell):  # and no text
        _finite(cell)


def _is_number(cell: str) -> bool:
    try:
        cell_value(cell, "float")
    except ValueError as error:
        return str(error).startswith((BEYOND, BENEATH))
    return True


def _json_rows(path: str, contract: "Contract") -> int:
    rows = 0
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            rows += 1
            try:
                _check_row(read_json(line), contract)
            except (ValueError, RecursionError) as error:
                raise Breach(f", line {number}: no JSON: {error}") from None
            except Breach as breach:
                raise Breach(f", line {number}: {breach}") from None
    return rows


def _check_row(row: Any, contract: "Contract") -> None:
    if not isinstance(row, dict):
        raise Breach(f"{type(row).__name__}; expected a JSON object")
    for column, kind in (contract.columns or {}).items():
        if column not in row:
            raise Breach(f"no '{column}'; it has: {listed(row)}")
        if not is_of(row[column], kind):
            raise Breach(f"{column} is {shown(row[column])}; expected {kind}")
    if contract.finite and (odd := not_finite(row)) is not None:
        raise Breach(f"{odd}; expected a finite number")
