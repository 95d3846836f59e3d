"""Holds files of the field to their contracts: Parquet, HDF5, NetCDF, Zarr, extended XYZ.

What a file says about itself is read, and its numbers, piece by piece, only if they must be finite.
"""

import os

from diel.base.formats.node import BadData, Content, FileArray, opened
from diel.base.terms import format_of
from diel.base.units import contradict
from diel.store.artifacts.arrays import first_not_finite
from diel.store.artifacts.artifact import Breach
from diel.store.artifacts.promise import Sizes, check_kind, hold_count
from diel.store.artifacts.values import listed
from diel.workflow.models import Output


def check_contents(name: str, path: str, contract: Output, sizes: Sizes) -> None:
    """Hold a file, or what is at a place inside it, to its contract. Raise Breach with the fault."""
    what = f"{os.path.basename(path)}{f':{contract.inside}' if contract.inside else ''}"
    try:
        with opened(path, contract.inside, contract.columns) as content:
            _check_units(what, content, contract)
            if isinstance(content, FileArray):
                check_kind(name, what, content.shape, content.dtype, contract, sizes)
                if contract.finite:
                    _check_finite(what, content)
            else:
                _check_columns(what, path, content, contract)
    except BadData as error:
        raise Breach(str(error)) from error


def _check_columns(what: str, path: str, content: dict[str, FileArray], contract: Output) -> None:
    if contract.dtype is not None or contract.shape is not None:
        place = f"{what}{'' if contract.inside else ':'}/NAME"
        raise Breach(f"{what} has several arrays: {listed(content)}; name one in the path: {place}")
    columns = contract.columns or {}
    for column, kind in columns.items():
        if column not in content:
            raise Breach(f"{what} has no column '{column}'; it has: {listed(content)}")
        actual = content[column].word
        if actual != kind and (actual, kind) != ("int", "float"):
            raise Breach(f"{what}: {column} is {actual}; expected {kind}")
        _check_whole(f"{what}: {column}", content[column], kind)
    if contract.rows is not None:
        counting = ["atoms"] if format_of(path) == "frames" else list(columns) or list(content)
        rows = {
            column: content[column].shape[0]
            for column in counting
            if column in content and content[column].shape
        }
        if len(set(rows.values())) > 1:
            has = listed(f"{column} {number}" for column, number in rows.items())
            raise Breach(
                f"{what}: its columns differ in length: {has}; name those that count under `columns`"
            )
        hold_count(contract.rows, what, next(iter(rows.values()), 0), "row")
    if contract.finite:
        for column, array in content.items():
            _check_finite(f"{what}: {column}", array)


def _check_units(what: str, content: Content, contract: Output) -> None:
    """Compare the units that arrays and columns name with promised ones; one for all is of no coordinate."""
    arrays, units = {"": content} if isinstance(content, FileArray) else content, contract.units or {}
    axes = {axis for array in arrays.values() for axis in array.axes}
    for name, array in arrays.items():
        promised = units.get(name, "") if isinstance(units, dict) else "" if name in axes else units
        if promised and contradict(array.units, promised):
            place = f"{what}: {name}" if name else what
            raise Breach(f"{place} says that its units are '{array.units}'; expected '{promised}'")


def _check_whole(what: str, array: FileArray, kind: str) -> None:
    """Refuse a null, or a whole number that is missing; a float that is missing is NaN."""
    if array.dtype.kind == "f" or (array.masked is not None and array.dtype.kind not in "iu"):
        return
    for start, piece in array.pieces():
        lacks = piece.dtype.kind == "O" or (piece.dtype.kind == "f" and array.dtype.kind in "iu")
        for place, item in enumerate(piece.flat) if lacks else ():
            if item is None or item != item:
                raise Breach(f"{what}[{sum(start[:1]) + place}] is null; expected {kind}")


def _check_finite(what: str, array: FileArray) -> None:
    if array.dtype.kind not in "fcM" and array.masked is None:
        return
    for start, piece in array.pieces():
        odd = first_not_finite(piece)
        if odd is not None:
            place = [first + index for first, index in zip(start, odd[0], strict=True)]
            raise Breach(f"{what}{place or ''} is {odd[1]}; expected a finite number")
