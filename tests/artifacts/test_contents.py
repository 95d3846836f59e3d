"""Files of the field and their contracts: what is promised is looked for, and no more is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import diel.base.formats.node
from diel.base.errors import ModuleError
from diel.store.artifacts import collect_files
from diel.workflow.models import Output
from tests.formats.made import make

NAN = float("nan")


def hold(task_dir: Path, run_dir: Path, name: str, last: float = 3.5, **promised: Any) -> dict[str, Any]:
    """Collects a file of its suffix as an output with a contract."""
    make(task_dir, name, last)
    output = Output.model_validate({"path": name, **promised})
    return collect_files({"out": name}, task_dir, run_dir, {"out": output})["out"]


GOOD: list[tuple[str, dict[str, Any]]] = [
    ("a.parquet", {"columns": {"t": "float", "n": "int", "s": "str"}, "rows": 3, "finite": True}),
    ("a.h5", {"inside": "/group", "columns": {"t": "float", "n": "float"}, "rows": ">2", "finite": True}),
    ("a.h5", {"inside": "/grid", "shape": [2, "n"], "dtype": "float32", "rows": 2, "finite": True}),
    ("a.h5", {"inside": "/table", "columns": {"n": "int"}, "rows": 3}),
    ("a.nc", {"columns": {"t": "float"}, "rows": 3, "finite": True}),
    ("a.nc", {"inside": "/group/t", "shape": [3], "finite": True}),
    ("a.zarr", {"inside": "/group", "columns": {"t": "float"}, "rows": 3}),
    ("a.zarr", {"inside": "/grid", "shape": ["*", 3], "dtype": "float32"}),
    ("a.extxyz", {"columns": {"energy": "float", "forces": "float"}, "rows": 3, "finite": True}),
]


@pytest.mark.parametrize(("name", "promised"), GOOD)
def test_a_kept_promise_is_kept(task_dir: Path, run_dir: Path, name: str, promised: dict[str, Any]) -> None:
    entry = hold(task_dir, run_dir, name, **promised)
    assert entry["path"] == f"tasks/s/0/{name}"
    assert entry.get("inside") == promised.get("inside")


@pytest.mark.parametrize(
    ("name", "promised", "words"),
    [
        ("a.parquet", {"columns": {"x": "float"}}, "a.parquet has no column 'x'; it has: t, n, s"),
        ("a.parquet", {"columns": {"t": "int"}}, "a.parquet: t is float; expected int"),
        ("a.parquet", {"rows": ">=100"}, "a.parquet has 3 rows; expected >=100"),
        ("a.parquet", {"finite": True}, r"a.parquet: t\[2\] is nan; expected a finite number"),
        ("a.h5", {"inside": "/grid", "shape": [2, 2]}, r"a.h5:/grid has shape \[2, 3\]; expected \[2, 2\]"),
        ("a.h5", {"inside": "/grid", "dtype": "float64"}, "a.h5:/grid is float32; expected float64"),
        ("a.h5", {"inside": "/grid", "finite": True}, r"a.h5:/grid\[0, 2\] is nan; expected a finite number"),
        ("a.h5", {"shape": [2]}, "a.h5 has several arrays: grid, table; name one in the path: a.h5:/NAME"),
        ("a.h5", {"inside": "/group", "dtype": "float64"}, "name one in the path: a.h5:/group/NAME$"),
        ("none.extxyz", {"rows": 3}, "none.extxyz has 0 rows; expected 3"),
        ("a.h5", {"inside": "/gird"}, "there is no 'gird' in it; it has: grid, group, table"),
        (
            "a.nc",
            {"rows": 3},
            r"its columns differ in length: t 3, n 3, grid 2; name those that count under `columns`",
        ),
        (
            "a.zarr",
            {"inside": "/grid", "columns": {"t": "int"}},
            "a.zarr:/grid is an array; expected a table",
        ),
        ("a.extxyz", {"rows": 4}, "a.extxyz has 3 rows; expected 4"),
        (
            "a.extxyz",
            {"columns": {"virial": "float"}},
            "has no column 'virial'; it has: atoms, Lattice, n, energy",
        ),
    ],
)
def test_a_broken_promise_says_what_was_found(
    task_dir: Path, run_dir: Path, name: str, promised: dict[str, Any], words: str
) -> None:
    with pytest.raises(ModuleError, match=f"output 'out': .*{words}"):
        hold(task_dir, run_dir, name, NAN if "finite" in promised else 3.5, **promised)


def test_numbers_are_not_read_for_a_shape(
    task_dir: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diel.base.formats.node, "sliced", None)
    monkeypatch.setattr("diel.base.formats.store.sliced", None)
    hold(task_dir, run_dir, "a.h5", inside="/grid", shape=[2, 3], dtype="float32")


LACKING: dict[str, list[Any]] = {
    "n": [None, 2],
    "t": [1.5, None],
    "b": [True, None],
    "s": [None, "a"],
    "w": [1, 2],
}


@pytest.mark.parametrize(("column", "kind"), [("n", "int"), ("n", "float"), ("b", "bool"), ("s", "str")])
def test_a_null_in_a_column_of_parquet_breaks_its_promise(
    task_dir: Path, run_dir: Path, column: str, kind: str
) -> None:
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(LACKING), task_dir / "a.parquet")
    whole = Output.model_validate({"path": "a.parquet", "columns": {"w": "int"}})
    assert collect_files({"out": "a.parquet"}, task_dir, run_dir, {"out": whole})
    output = Output.model_validate(
        {"path": "a.parquet", "columns": {"w": "int", column: kind}, "finite": True}
    )
    place = LACKING[column].index(None)
    with pytest.raises(ModuleError, match=rf"a.parquet: {column}\[{place}\] is null; expected {kind}"):
        collect_files({"out": "a.parquet"}, task_dir, run_dir, {"out": output})


@pytest.mark.parametrize(
    ("promise", "words"), [({}, "is null; expected int"), ({"finite": True}, "is null"), (None, "nan")]
)
def test_a_whole_number_that_is_missing_breaks_a_promise(
    task_dir: Path, run_dir: Path, promise: dict[str, Any] | None, words: str
) -> None:
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(task_dir / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("n", "i4", ("x",), fill_value=-9)[:] = [1, -9]
    about = {"finite": True, "rows": 2} if promise is None else {"columns": {"n": "int"}, **promise}
    output = Output.model_validate({"path": "a.nc", **about})
    with pytest.raises(ModuleError, match=rf"a.nc: n\[1\] .*{words}"):
        collect_files({"out": "a.nc"}, task_dir, run_dir, {"out": output})
