"""HDF5, NetCDF and Zarr: texts, packed and missing numbers."""

from __future__ import annotations

from pathlib import Path

from diel.formats.node import FileArray, opened, rows_of
from tests.formats.made import h5py, make, netCDF4, numpy


def test_texts_of_hdf5_are_texts(tmp_path: Path) -> None:
    path = str(make(tmp_path, "a.h5"))
    with opened(path, "/group") as found:
        assert isinstance(found, dict)
        assert found["s"].word == "str"
    assert rows_of(path, "/group/s", None) == ["a", "b", "c"]


def test_a_number_alone_is_an_array_without_sizes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["energy"] = 1.5
    with opened(str(tmp_path / "a.h5"), "/energy") as found:
        assert isinstance(found, FileArray)
        assert (found.shape, float(found.values())) == ((), 1.5)


def test_what_netcdf_lacks_is_nan_and_what_it_packs_is_unpacked(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("missing", "f8", ("x",), fill_value=-1.0)[:] = numpy.ma.array([1, 2], mask=[0, 1])
        packed = file.createVariable("packed", "i2", ("x",))
        packed.scale_factor = 0.5
        packed[:] = [1.0, 2.5]
    with opened(str(tmp_path / "a.nc")) as found:
        assert isinstance(found, dict)
        assert numpy.isnan(found["missing"].values()).tolist() == [False, True]
        assert (found["packed"].word, found["packed"].values().tolist()) == ("float", [1.0, 2.5])
