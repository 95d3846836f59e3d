"""Arrays in HDF5, NetCDF, Zarr and NumPy's files, alone or in a group."""

import contextlib
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from zipfile import BadZipFile

import numpy

from diel.base.formats.node import BadData, Content, FileArray, at, sliced

_TEXT = numpy.dtype("U")
_SINCE = re.compile(
    r"(?i)\s*(year|month|week|day|d|hour|hr|h|min(ute)?|(milli|micro|nano)?s(ec(ond)?)?|[mun]s)s?\s+since\s"
)
"""The units of times, as the conventions CF have them: `days since 2000-01-01`."""


@contextlib.contextmanager
def open_hdf5(path: str, inside: str) -> Iterator[Content]:
    """Open a dataset, the fields of one, or the datasets of a group."""
    import h5py  # here: only data of this kind needs it

    with h5py.File(path, "r") as file:
        target: Any = file if inside == "/" else _below(file, inside)
        if isinstance(target, h5py.Dataset):
            names = target.dtype.names
            yield _hdf5(target) if names is None else {name: _hdf5(target, name) for name in names}
        else:
            yield {name: _hdf5(node) for name, node in target.items() if isinstance(node, h5py.Dataset)}


def _hdf5(dataset: Any, field: str = "") -> FileArray:
    import h5py  # here: only data of this kind needs it

    dtype = dataset.dtype[field] if field else dataset.dtype
    source = dataset.fields(field) if field else dataset
    if h5py.check_string_dtype(dtype) is not None:
        return _node(dataset.shape, _TEXT, (source if field else source.asstr()).__getitem__)
    return _unpacked(dataset.shape, dtype, source, {} if field else dataset.attrs)


def _below(group: Any, inside: str) -> Any:
    """Return the node at a place of nested groups. Raise BadData with the nodes there are instead."""
    for part in inside.strip("/").split("/"):
        group = at(group, part)
    return group


@contextlib.contextmanager
def open_netcdf(path: str, inside: str) -> Iterator[Content]:
    """Open a variable, or the variables of a group; a missing number is NaN."""
    import netCDF4  # here: only data of this kind needs it

    with netCDF4.Dataset(path) as file:
        group: Any = file
        for part in filter(None, inside.split("/")):
            if isinstance(group, netCDF4.Variable):
                raise BadData(f"there is no '{inside}' in it")
            group = at({**group.groups, **group.variables}, part)
        if isinstance(group, netCDF4.Variable):
            yield _netcdf(group)
        else:
            yield {name: _netcdf(variable) for name, variable in group.variables.items()}


def _netcdf(variable: Any) -> FileArray:
    attributes = {**variable.__dict__, "_ARRAY_DIMENSIONS": variable.dimensions}
    if variable.dtype is str:
        return _node(variable.shape, _TEXT, lambda place: variable[place or ...], attributes)
    variable.set_auto_maskandscale(False)  # which also masks what lies outside `valid_range`
    return _unpacked(variable.shape, variable.dtype, variable, attributes)


@contextlib.contextmanager
def open_zarr(path: str, inside: str) -> Iterator[Content]:
    """Open an array, or the arrays of a group."""
    import zarr  # here: only data of this kind needs it

    target: Any = zarr.open(path, mode="r")
    if inside != "/":
        target = _below(target, inside)
    if isinstance(target, zarr.Array):
        yield _zarr(target)
    else:
        yield {name: _zarr(array) for name, array in target.arrays()}


def _zarr(array: Any) -> FileArray:
    about, fill = dict(array.attrs), array.attrs.get("_FillValue")
    if array.metadata.zarr_format == 3:
        about["_ARRAY_DIMENSIONS"] = array.metadata.dimension_names or ()
        if isinstance(fill, str) and fill.endswith("=") and array.dtype.kind == "f":  # xarray's base64
            about["_FillValue"] = numpy.frombuffer(b64decode(fill), "<f8")
    elif "_ARRAY_DIMENSIONS" in about:  # of xarray
        about["_FillValue"] = array.fill_value
    return _unpacked(array.shape, array.dtype, array, about)


@contextlib.contextmanager
def open_numpy(path: str, inside: str) -> Iterator[Content]:
    """Open the array of a `.npy` file, the fields of a structured one, or the arrays of a `.npz` file."""
    try:
        parts: Any = numpy.load(path, allow_pickle=False)
        if not isinstance(parts, numpy.ndarray):
            parts = {name: parts[name] for name in parts.files}
    except (EOFError, BadZipFile) as error:
        raise BadData(f"it holds no array: {error}") from error
    except ValueError as error:
        if "pickle" not in str(error):  # NumPy takes unknown bytes for pickles
            raise
        raise BadData("it is no file of NumPy's, or holds pickled Python objects") from error
    parts = parts if inside == "/" else at(parts, inside.strip("/"))
    names = parts if isinstance(parts, dict) else parts.dtype.names
    if names is None:
        yield _node(parts.shape, parts.dtype, parts.__getitem__)
    else:
        yield {name: _node(parts[name].shape, parts[name].dtype, parts[name].__getitem__) for name in names}


def _unpacked(shape: tuple[int, ...], dtype: Any, source: Any, attributes: Mapping[str, Any]) -> FileArray:
    """Unpack numbers as xarray does: it masks by `_FillValue` and `missing_value`, not by `valid_range`."""
    kinds = {("i", "true"): "u", ("u", "false"): "i"}
    unsigned = str(numpy.asarray(attributes.get("_Unsigned", "")).astype("U"))
    kind = kinds.get((dtype.kind, unsigned), dtype.kind)
    whole = dtype if kind == dtype.kind else numpy.dtype(f"{kind}{dtype.itemsize}")
    fills = [numpy.ravel(attributes.get(name, ())) for name in ("_FillValue", "missing_value")]
    if whole is not dtype and fills[0].dtype.kind in "iuf":
        fills[0] = fills[0].astype(dtype).astype(whole)
    marks = [mark for fill in fills if fill.dtype.kind in "iuf" for mark in fill]
    factors = {n: numpy.ravel(attributes[n])[0] for n in ("scale_factor", "add_offset") if n in attributes}
    if not (marks or factors or whole is not dtype) or dtype.kind not in "iuf":
        return _node(shape, dtype, lambda place: source[place or ...], attributes)
    types = {name: factor.dtype for name, factor in factors.items()}
    unpacked = _unpacked_type(whole, types) if types else whole

    def read(place: Any) -> Any:
        piece = numpy.asarray(source[place or ...]).astype(whole, copy=False)
        lacks = numpy.any([piece == mark for mark in marks], axis=0) if marks else False
        items = numpy.ma.masked_array(piece.astype(unpacked, copy=False), lacks)
        if "scale_factor" in factors:
            items *= unpacked.type(factors["scale_factor"])
        if "add_offset" in factors:
            items += unpacked.type(factors["add_offset"])
        return items

    return _node(shape, unpacked, read, attributes)


def _unpacked_type(dtype: Any, types: Mapping[str, Any]) -> Any:
    """Return the type that xarray chooses for numbers with factors of some types; 64 bits for whole ones."""
    if [*types] == ["scale_factor"] and types["scale_factor"].kind in "iuf":
        return types["scale_factor"] if types["scale_factor"].kind == "f" else numpy.dtype("i8")
    wide = dtype.kind in "iu" and dtype.itemsize == 4
    return numpy.dtype("f4" if [*types.values()] == ["f4", "f4"] and not wide else "f8")


def _node(
    shape: tuple[int, ...], dtype: Any, read: Any, attributes: Mapping[str, Any] | None = None
) -> FileArray:
    """Make an array of what `read` gives for a place, where some of it may be masked."""
    words = {
        name: word for name, word in (attributes or {}).items() if name in ("units", "calendar", "dtype")
    }
    words = {name: word.decode() if isinstance(word, bytes) else str(word) for name, word in words.items()}
    stored, meant = words.get("dtype", ""), dtype  # xarray's note of what it has written as numbers
    if stored == "bool" or stored.startswith("timedelta64"):
        meant = numpy.dtype(stored)
    elif _SINCE.match(words.get("units", "")) and dtype.kind in "iuf":
        usual = ("standard", "gregorian", "proleptic_gregorian")
        meant = numpy.dtype("M8[us]" if words.get("calendar", usual[0]).lower() in usual else object)
    convert = partial(_filled, dtype) if meant is dtype else partial(_decoded, words)

    def pieces() -> Iterator[tuple[tuple[int, ...], Any]]:
        for start, piece in sliced(shape or (), dtype.itemsize or 8, read):
            yield start, convert(piece)

    masked = (lambda: read(...)) if attributes is not None and meant is dtype else None
    about = attributes or {}
    axes = (*about.get("_ARRAY_DIMENSIONS", ()), *str(about.get("coordinates", "")).split())
    return FileArray(tuple(shape or ()), meant, pieces, masked, words.get("units", ""), axes)


def _filled(dtype: Any, piece: Any) -> Any:
    """Return items with NaN for missing numbers."""
    if isinstance(piece, numpy.ma.MaskedArray):
        if piece.dtype.kind in "iu" and piece.mask.any():
            piece = piece.astype("f8")
        piece = piece.filled(numpy.nan) if piece.dtype.kind == "f" else piece.data
    return numpy.asarray(piece, _TEXT if dtype.kind in "TU" else None)


def _decoded(words: Mapping[str, str], piece: Any) -> Any:
    """Return the times, durations or truths that numbers stand for, perhaps of cftime. Raise BadData."""
    import xarray  # here: few files have times

    known, units = numpy.ma.masked_invalid(piece), words.get("units", "")
    coder = xarray.coders.CFDatetimeCoder(time_unit="ns" if units.lstrip()[:1] in ("n", "N") else "us")
    try:
        items = xarray.decode_cf(xarray.Dataset({"x": ("i", known.compressed(), words)}), decode_times=coder)
        lacks, flat = numpy.ma.getmaskarray(known), items["x"].values
    except (ValueError, OverflowError) as error:
        raise BadData(f"nobody can tell the times in '{units}' ({error.__cause__ or error})") from error
    whole = numpy.full(known.shape, None, object if flat.dtype.kind == "b" and lacks.any() else flat.dtype)
    whole[~lacks] = flat
    return whole
