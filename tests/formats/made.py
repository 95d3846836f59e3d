"""Small files of every format of the field, made with their own libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

WHY = "files of the field are read with diel[data] and diel[ase]"
numpy, pandas = (pytest.importorskip(name, reason=WHY) for name in ("numpy", "pandas"))
h5py, netCDF4, zarr = (pytest.importorskip(name, reason=WHY) for name in ("h5py", "netCDF4", "zarr"))
pytest.importorskip("ase", reason=WHY)

T, N = [1.5, 2.5, 3.5], [1, 2, 3]


def make(folder: Path, name: str, last: float = 3.5) -> Path:
    """A file of its suffix with the columns `t` (float) and `n` (int) of three rows, and a group of arrays."""
    path, t = folder / name, [*T[:2], last]
    match path.suffix:
        case ".parquet":
            pandas.DataFrame({"t": t, "n": N, "s": ["a", "b", "c"]}).to_parquet(path, row_group_size=1)
        case ".h5":
            with h5py.File(path, "w") as file:
                group = file.create_group("group")
                group["t"], group["n"], group["s"] = t, N, ["a", "b", "c"]
                file["grid"] = numpy.array([t, t], dtype="f4")
                file["table"] = numpy.array(list(zip(t, N, strict=True)), dtype=[("t", "f8"), ("n", "i8")])
        case ".nc":
            with netCDF4.Dataset(path, "w") as file:
                file.createDimension("row", 3)
                file.createDimension("side", 2)
                group = file.createGroup("group")
                for where in (file, group):
                    where.createVariable("t", "f8", ("row",))[:] = t
                    where.createVariable("n", "i8", ("row",))[:] = N
                file.createVariable("grid", "f4", ("side", "row"))[:] = [t, t]
        case ".zarr":
            root = zarr.open_group(path, mode="w")
            group = root.create_group("group")
            group.create_array("t", data=numpy.array(t))
            group.create_array("n", data=numpy.array(N))
            root.create_array("grid", data=numpy.array([t, t], dtype="f4"))
        case ".extxyz" if path.stem == "none":
            path.touch()
        case ".extxyz":
            from ase.io import write

            write(path, [frame(energy, number) for energy, number in zip(t, N, strict=True)], format="extxyz")
    return path


def frame(energy: float, number: int) -> Any:
    """Atoms with a computed energy and forces."""
    from ase.build import bulk
    from ase.calculators.singlepoint import SinglePointCalculator

    atoms = bulk("Cu", cubic=True)
    atoms.info["n"] = number
    atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=numpy.zeros((4, 3)))
    return atoms
