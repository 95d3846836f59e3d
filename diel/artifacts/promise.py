"""Holding what a task made to its contract, before anybody reads it."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from diel.artifacts.artifact import files_below
from diel.artifacts.tables import check_table
from diel.artifacts.values import is_of, listed, not_finite, shown
from diel.errors import ModuleError, counted
from diel.terms import ABOUT, count_words, fits_count, format_of, shown_shape

if TYPE_CHECKING:
    import numpy

    from diel.spec import Output
    from diel.spec.contract import Contract

Sizes = dict[str, tuple[int, str]]
"""The sizes that names such as `n` stand for in one task, each with the output that said so first."""
_WORDS = {"table": "a table", "array": "an array", "json": "a JSON object", "files": "a directory"}


def check_path(name: str, path: str, contract: Output, sizes: Sizes) -> None:
    """Holds a file or directory to its contract. Raises ModuleError with what was found."""
    promised = contract.promises
    if not promised or promised == ("units",):
        return
    file = os.path.basename(path)
    if os.path.isdir(path):
        if contract.files is None:
            raise ModuleError(f"output '{name}': {file} is a directory; its contract is about a file")
        check_number(name, file, len(files_below(path)), contract)
        return
    if contract.files is not None:
        raise ModuleError(f"output '{name}': {file} is a file; expected a directory of files")
    match format_of(path) or _meant(contract):
        case "array":
            _check_array_file(name, path, contract, sizes)
        case "json":
            _check_json_file(name, path, contract)
        case "table":
            _refuse_other(name, file, contract, "table", "a table")
            check_table(name, path, contract)
        case _:
            kinds = ", ".join(f"`{one}`" for one in promised if one != "units")
            raise ModuleError(f"output '{name}': {file} is no file in which {kinds} can be checked")


def _meant(contract: Contract) -> str | None:
    """What a file with an unknown suffix must be for its contract to apply."""
    if contract.columns is not None:
        return "table"
    return "array" if contract.dtype is not None or contract.shape is not None else None


def _refuse_other(name: str, found: str, contract: Contract, fitting: str, what: str) -> None:
    """Refuses data of another kind than the contract is about."""
    wanted = _other(contract, fitting)
    if wanted is not None:
        raise ModuleError(f"output '{name}': {found} is {what}; expected {wanted}")


def _other(contract: Contract, fitting: str) -> str | None:
    """What a contract is about, if not the fitting kind of data."""
    wanted = next((ABOUT[one] for one in contract.promises if one in ABOUT), fitting)
    return None if wanted == fitting else _WORDS[wanted]


def check_number(name: str, what: str, number: int, contract: Contract) -> None:
    """Holds a number of files to what was promised."""
    if contract.files is not None and not fits_count(contract.files, number):
        raise ModuleError(
            f"output '{name}': {what} has {counted(number, 'file')}; expected {count_words(contract.files)}"
        )


def _check_array_file(name: str, path: str, contract: Output, sizes: Sizes) -> None:
    file = os.path.basename(path)
    try:
        import numpy  # here: commands make arrays where no module has loaded it

        from diel.artifacts.arrays import check_finite  # it needs NumPy
        from diel.artifacts.npy import read_header  # as above

        header = read_header(path)
    except ImportError:
        raise ModuleError(f"output '{name}': to check an array takes numpy: pip install numpy") from None
    except ValueError as error:
        raise ModuleError(f"output '{name}': {file} holds no array: {error}") from error
    shape, dtype = header.shape, header.dtype
    if dtype.hasobject:
        raise ModuleError(f"output '{name}': {file} holds pickled Python objects, which no stage can read")
    _check_kind(name, file, shape, dtype, contract, sizes)
    items: int = math.prod(shape)
    wanted = header.offset + items * dtype.itemsize
    size = os.path.getsize(path)
    if size < wanted:
        raise ModuleError(f"output '{name}': {file} is cut short: {size} bytes of {wanted}")
    if contract.finite and items:
        check_finite(name, file, numpy.load(path, mmap_mode="r", allow_pickle=False))


def check_array(name: str, array: numpy.ndarray[Any, Any], contract: Output, sizes: Sizes) -> None:
    """Holds the kind of an array in memory to its contract. Raises ModuleError with what was found.

    Its numbers are looked at where it is written.
    """
    _check_kind(name, "the array", array.shape, array.dtype, contract, sizes)


def _check_kind(
    name: str, what: str, shape: tuple[int, ...], dtype: numpy.dtype[Any], contract: Output, sizes: Sizes
) -> None:
    _refuse_other(name, what, contract, "array", "an array")
    found = "str" if dtype.kind in "US" else dtype.name
    if contract.dtype is not None and found != contract.dtype:
        raise ModuleError(f"output '{name}': {what} is {found}; expected {contract.dtype}")
    if contract.rows is not None:
        rows = shape[0] if shape else 0
        if not fits_count(contract.rows, rows):
            found_rows = f"{what} has {counted(rows, 'row')} (shape {shown_shape(shape)})"
            raise ModuleError(f"output '{name}': {found_rows}; expected {count_words(contract.rows)}")
    if contract.shape is not None:
        _check_shape(name, what, shape, contract.shape, sizes)


def _check_shape(
    name: str, what: str, shape: tuple[int, ...], wanted: tuple[int | str, ...], sizes: Sizes
) -> None:
    fits = len(shape) == len(wanted) and all(
        not isinstance(one, int) or one == size for one, size in zip(wanted, shape, strict=True)
    )
    if not fits:
        expected = f"expected {shown_shape(wanted)}"
        raise ModuleError(f"output '{name}': {what} has shape {shown_shape(shape)}; {expected}")
    for one, size in zip(wanted, shape, strict=True):
        if isinstance(one, str) and one != "*":
            known, owner = sizes.setdefault(one, (size, name))
            if known != size:
                has = f"shape {shown_shape(shape)}, so that {one} is {size}"
                where = "too" if owner == name else f"of '{owner}'"
                raise ModuleError(f"output '{name}': {what} has {has}; it is {known} {where}")


def _check_json_file(name: str, path: str, contract: Output) -> None:
    file = os.path.basename(path)
    _refuse_other(name, file, contract, "json", "JSON")
    try:
        with open(path, encoding="utf-8-sig") as opened:
            value = json.load(opened)
    except (ValueError, RecursionError) as error:
        raise ModuleError(f"output '{name}': {file} holds no JSON: {error}") from error
    check_value(name, value, contract, file)


def check_value(name: str, value: Any, contract: Output, what: str = "the value") -> None:
    """Holds a JSON value to its contract. Raises ModuleError with what was found."""
    other = _other(contract, "json")
    if other is not None:
        raise ModuleError(f"output '{name}': {shown(value)} is a value; expected {other}")
    if contract.keys is not None:
        if not isinstance(value, dict):
            raise ModuleError(f"output '{name}': {what} is {shown(value)}; expected a JSON object")
        for key, kind in contract.keys.items():
            if key not in value:
                raise ModuleError(f"output '{name}': {what} has no key '{key}'; it has: {listed(value)}")
            if not is_of(value[key], kind):
                raise ModuleError(f"output '{name}': {key} is {shown(value[key])}; expected {kind}")
    if contract.finite and (odd := not_finite(value)) is not None:
        raise ModuleError(f"output '{name}': {odd}; expected a finite number")
