"""Arrays in HDF5, NetCDF, Zarr and NumPy's files, alone or in a group."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from zipfile import BadZipFile

import numpy

from diel.formats.node import BadData, Content, FileArray, at, sliced

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
    packed = "scale_factor" in variable.ncattrs() or "add_offset" in variable.ncattrs()
    dtype = _TEXT if variable.dtype is str else numpy.dtype("f8" if packed else variable.dtype)
    attributes = {**variable.__dict__, "_ARRAY_DIMENSIONS": variable.dimensions}
    return _node(variable.shape, dtype, lambda place: variable[place or ...], attributes)


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
    more = {"missing_value": array.fill_value} if "_ARRAY_DIMENSIONS" in array.attrs else {}  # of xarray
    return _unpacked(array.shape, array.dtype, array, {**array.attrs, **more})


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
    """Unpack numbers by their attributes, as netCDF4 does itself."""
    fills = (attributes.get(name) for name in ("_FillValue", "missing_value"))
    marks = [mark for fill in fills if not isinstance(fill, str | None) for mark in numpy.ravel(fill)]
    packed = {"scale_factor", "add_offset"} & attributes.keys()
    if not (packed or marks) or dtype.kind not in "iuf":
        return _node(shape, dtype, source.__getitem__, attributes)

    def read(place: Any) -> Any:
        items = numpy.ma.masked_array(piece := numpy.asarray(source[place]), numpy.isin(piece, marks))
        scale, offset = attributes.get("scale_factor", 1), attributes.get("add_offset", 0)
        return items * numpy.float64(scale) + offset if packed else items

    return _node(shape, numpy.dtype("f8") if packed else dtype, read, attributes)


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
    """Return the times, durations or truths that numbers stand for; those of a calendar of its own are
    objects of cftime. Raise BadData where they stand for none."""
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
