"""What attributes of numbers mean: the same for every reader and format, as xarray decodes them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from diel.base.formats.node import rows_of
from diel.base.formats.objects import load
from tests.formats.made import h5py, netCDF4, numpy, pandas

xarray = pytest.importorskip("xarray", reason="files of the field are read with diel[data]")

CASES: dict[str, tuple[list[float], str, dict[str, Any]]] = {
    "no attribute": ([1, -2, 3], "i4", {}),
    "_FillValue of floats": ([1, -9, 3], "f8", {"_FillValue": -9.0}),
    "_FillValue of f4": ([1, 2, 1e20], "f4", {"_FillValue": numpy.float32(1e20)}),
    "_FillValue NaN": ([1, numpy.nan, 3], "f8", {"_FillValue": numpy.nan}),
    "_FillValue of integers": ([1, -9, 3], "i4", {"_FillValue": numpy.int32(-9)}),
    "_FillValue zero": ([1, 0, 3], "f8", {"_FillValue": 0.0}),
    "missing_value": ([1, -9, -99], "f8", {"missing_value": -99.0}),
    "missing_value beside _FillValue": ([1, -9, -99], "f8", {"missing_value": -99.0, "_FillValue": -9.0}),
    "missing_value, a list": ([1, -9, -99], "i4", {"missing_value": numpy.array([-9, -99], "i4")}),
    "missing_value of another type": ([1, 2, 0.1], "f4", {"missing_value": 0.1}),
    "missing_value, a text": ([1, -9, 3], "f8", {"missing_value": "-9"}),
    "missing_value of packed ones": ([1, -9, 3], "i2", {"missing_value": numpy.int16(-9), "scale_factor": 0.5}),
    "_Unsigned true": ([0, -56, -1], "i1", {"_Unsigned": "true"}),
    "_Unsigned true, of unsigned": ([0, 200, 255], "u1", {"_Unsigned": "true"}),
    "_Unsigned true, fill": ([0, -56, -1], "i1", {"_Unsigned": "true", "_FillValue": numpy.int8(-1)}),
    "_Unsigned true, missing": ([0, -56, 7], "i1", {"_Unsigned": "true", "missing_value": numpy.int8(7)}),
    "_Unsigned true, packed": ([1, 2, -1], "i2", {"_Unsigned": "true", "scale_factor": 0.5}),
    "_Unsigned true, packed with fill": (
        [1, -2, -1], "i2", {"_Unsigned": "true", "scale_factor": 0.5, "_FillValue": numpy.int16(-1)},
    ),
    "_Unsigned false": ([1, 200, 255], "u1", {"_Unsigned": "false"}),
    "_Unsigned false, fill": ([1, 200, 7], "u1", {"_Unsigned": "false", "_FillValue": numpy.uint8(7)}),
    "_Unsigned false, packed": ([1, 200, 255], "u1", {"_Unsigned": "false", "scale_factor": 0.5}),
    "valid_range": ([1, 50, -3], "f8", {"valid_range": numpy.array([0.0, 10.0])}),
    "valid_min": ([1, 50, -3], "i4", {"valid_min": numpy.int32(0)}),
    "valid_max": ([1, 50, -3], "i4", {"valid_max": numpy.int32(10)}),
    "valid_max beside _FillValue": ([1, 50, -9], "i4", {"valid_max": 10, "_FillValue": numpy.int32(-9)}),
    "netCDF's fill of floats": ([0, 9.969209968386869e36, 1], "f8", {}),
    "netCDF's fill of integers": ([0, -2147483647, 1], "i4", {}),
    "scale_factor": ([1, 2, 3], "i1", {"scale_factor": 0.1}),
    "scale_factor of f4": ([1, 2, 3], "i2", {"scale_factor": numpy.float32(0.1)}),
    "scale_factor, an integer": ([1, 2, 3], "i4", {"scale_factor": numpy.int32(10)}),
    "add_offset of f4": ([1, 2, 3], "i2", {"add_offset": numpy.float32(0.3)}),
    "both of f4": ([1, 2, 3], "i2", {"scale_factor": numpy.float32(0.1), "add_offset": numpy.float32(0.3)}),
    "both of f4, of i4": ([1, 2, 3], "i4", {"scale_factor": numpy.float32(0.1), "add_offset": numpy.float32(0.3)}),
    "packed with fill": ([1, 3, -9], "i2", {"scale_factor": 0.5, "add_offset": 1.0, "_FillValue": numpy.int16(-9)}),
}  # fmt: skip
FORMATS = ["a.nc", "a.h5", "2.zarr", "3.zarr"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("items", "kind", "attributes"), CASES.values(), ids=CASES)
def test_every_reader_decodes_numbers_as_xarray(
    tmp_path: Path, name: str, items: list[float], kind: str, attributes: dict[str, Any]
) -> None:
    path = write(tmp_path / name, numpy.array(items, kind), attributes)
    with warnings.catch_warnings(action="ignore"):  # of several values that mean missing
        decoded = _plain(load("dataset", path)["x"].values.tolist())
        assert {
            "axis": _plain(row["x"] for row in rows_of(path, None, ("x",))[0]),
            "axis of a place": _plain(rows_of(path, "/x", None)[0]),
            "DataFrame": _plain(load("frame", path)["x"].tolist()),
            "DataFrame of a place": _plain(load("frame", path, "/x")["x"].tolist()),
            "Table": _plain(load("arrow", path)["x"].to_pylist()),
            "ndarray": _plain(load("array", path, "/x").tolist()),
        } == dict.fromkeys(
            ("axis", "axis of a place", "DataFrame", "DataFrame of a place", "Table", "ndarray"), decoded
        )


def write(path: Path, array: Any, attributes: dict[str, Any]) -> str:
    """A file with an array `x` of these attributes."""
    others = {name: value for name, value in attributes.items() if name != "_FillValue"}
    fill = attributes.get("_FillValue")
    if path.suffix == ".nc":
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("n", len(array))
            variable = file.createVariable("x", array.dtype, ("n",), fill_value=fill)
            variable.set_auto_maskandscale(False)
            variable.setncatts(others)
            variable[:] = array
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["x"] = array
            file["x"].attrs.update({**others, **({} if fill is None else {"_FillValue": [fill]})})
    else:
        dataset = xarray.Dataset({"x": ("n", array, others)})
        dataset["x"].encoding["_FillValue"] = None
        if fill is not None:
            dataset["x"].attrs["_FillValue"] = fill
            del dataset["x"].encoding["_FillValue"]
        dataset.to_zarr(path, zarr_format=int(path.stem), consolidated=False)
    return str(path)


def _plain(items: Any) -> list[Any]:
    """Numbers by their value; None for what is missing."""
    return [None if pandas.isna(item) else float(item) for item in items]
