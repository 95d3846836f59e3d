"""HDF5, NetCDF and Zarr: texts, packed and missing numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.formats.node import BadData, FileArray, opened, rows_of
from diel.base.formats.objects import load
from diel.store.artifacts.artifact import Breach
from diel.store.artifacts.contents import check_contents
from diel.workflow.models import Output
from diel.workflow.models.model import plain
from tests.formats.made import h5py, make, netCDF4, numpy, zarr


def test_texts_of_hdf5_are_texts(tmp_path: Path) -> None:
    path = str(make(tmp_path, "a.h5"))
    with opened(path, "/group") as found:
        assert isinstance(found, dict)
        assert found["s"].word == "str"
    assert rows_of(path, "/group/s", None)[0] == ["a", "b", "c"]


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


SINCE = {"units": "days since 2000-02-28"}
MOMENTS = ["2000-02-28T00:00:00", "2000-02-29T12:00:00", None]
MEANT: list[tuple[Any, dict[str, Any], Any]] = [
    ([0, 1.5, numpy.nan], SINCE, MOMENTS),
    ([0, 36, -9], {"units": "hours since 2000-02-28", "_FillValue": -9}, MOMENTS),
    ([0, 1.5, numpy.nan], {**SINCE, "calendar": "noleap"}, [MOMENTS[0], "2000-03-01T12:00:00", None]),
    ([0, 1, 2], {**SINCE, "calendar": "360_day"}, [f"2000-02-{day}T00:00:00" for day in (28, 29, 30)]),
    ([10**18 + 1], {"units": "nanoseconds since 1970-01-01"}, ["2001-09-09T01:46:40.000000001"]),
    (numpy.array([1, 0], "i1"), {"dtype": "bool"}, [True, False]),
    ([1, 2], {"units": "hours", "dtype": "timedelta64[ns]"}, "x holds .*timedelta64.*; expected numbers, texts or dates"),
    ([1, 2], {"units": "months since 2000-01-01"}, "nobody can tell the times in 'months since 2000-01-01' .'months"),
    ([1, 2], {"units": "days"}, [1, 2]),
    ([1, 2], {"units": "events since 2000"}, [1, 2]),
    (numpy.array([1, 3, -9], "i2"), {"scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -9}, [1.5, 2.5, None]),
    ([2**60 + 1, -9], {"_FillValue": -9}, [2**60 + 1, None]),
]  # fmt: skip


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "a.zarr"])
@pytest.mark.parametrize(("items", "attributes", "rows"), MEANT)
def test_numbers_are_what_their_attributes_say(
    tmp_path: Path, name: str, items: Any, attributes: dict[str, Any], rows: Any
) -> None:
    path, array = tmp_path / name, numpy.array(items)
    if path.suffix == ".nc":
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("n", len(array))
            variable = file.createVariable("x", array.dtype, ("n",), fill_value=attributes.get("_FillValue"))
            variable.setncatts({n: each for n, each in attributes.items() if n != "_FillValue"})
            variable.set_auto_maskandscale(False)
            variable[:] = array
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["x"] = array
            file["x"].attrs.update({n: [v] if n == "_FillValue" else v for n, v in attributes.items()})
    else:
        zarr.open_group(path, mode="w").create_array("x", data=array).attrs.update(attributes)
    if isinstance(rows, str):
        with pytest.raises(BadData, match=rows):
            rows_of(str(path), None, ("x",))[0]
        return
    assert [repr(row["x"]) for row in rows_of(str(path), None, ("x",))[0]] == [repr(row) for row in rows]
    frame = load("frame", str(path), "/x")["x"]
    assert list(frame.isna()) == [row is None for row in rows]
    with opened(str(path), "/x") as found:
        assert isinstance(found, FileArray)
        assert (rows == [True, False]) == (found.word == "bool")


def test_times_that_lack_some_are_not_finite(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"] = [0.0, numpy.nan]
        file["t"].attrs.update(SINCE)
    contract = plain(Output.model_validate({"path": "a.h5", "inside": "/t", "finite": True}))
    with pytest.raises(Breach, match=r"a.h5:/t\[1\] is .*; expected a finite number"):
        check_contents("t", str(tmp_path / "a.h5"), contract, {})
