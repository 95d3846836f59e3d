"""Arrays in HDF5, NetCDF, Zarr and NumPy's files, alone or in a group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from zipfile import BadZipFile

import numpy

from diel.formats.node import BadData, Content, FileArray, at, sliced

_TEXT = numpy.dtype("U")


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
        dtype, source = _TEXT, dataset.asstr() if not field else source
    return _node(dataset.shape, dtype, source.__getitem__)


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

    def read(place: Any) -> Any:
        piece = variable[place or ...]
        if isinstance(piece, numpy.ma.MaskedArray):
            if piece.dtype.kind in "iu" and piece.mask.any():
                piece = piece.astype("f8")
            return piece.filled(numpy.nan) if piece.dtype.kind == "f" else piece.data
        return piece

    return _node(variable.shape, dtype, read)._replace(masked=lambda: variable[...])


@contextlib.contextmanager
def open_zarr(path: str, inside: str) -> Iterator[Content]:
    """Open an array, or the arrays of a group."""
    import zarr  # here: only data of this kind needs it

    target: Any = zarr.open(path, mode="r")
    if inside != "/":
        target = _below(target, inside)
    if isinstance(target, zarr.Array):
        yield _node(target.shape, target.dtype, target.__getitem__)
    else:
        yield {name: _node(array.shape, array.dtype, array.__getitem__) for name, array in target.arrays()}


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


def _node(shape: tuple[int, ...], dtype: Any, read: Any) -> FileArray:
    def pieces() -> Iterator[tuple[tuple[int, ...], Any]]:
        for start, piece in sliced(shape or (), dtype.itemsize or 8, read):
            yield start, numpy.asarray(piece, _TEXT if dtype.kind in "TU" else None)

    return FileArray(tuple(shape or ()), dtype, pieces)
