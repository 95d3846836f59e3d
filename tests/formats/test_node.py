"""What is in a file of the field: shapes and types first, items when asked, rows of tables."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import diel.base.formats.node
from diel.base.formats.node import BadData, FileArray, opened, rows_of, sliced
from diel.base.formats.objects import load
from tests.formats.made import N, T, make, netCDF4, numpy

ROWS = [{"t": t, "n": n} for t, n in zip(T, N, strict=True)]


@pytest.mark.parametrize(
    ("name", "inside", "columns"),
    [
        ("a.parquet", None, ("t", "n")),
        ("a.h5", "/group", ("t", "n")),
        ("a.h5", "/table", None),
        ("a.nc", "/group", None),
        ("a.nc", None, ("t", "n")),
        ("a.zarr", "/group", ("t", "n")),
    ],
)
def test_rows_are_read_from_tables_and_groups(
    tmp_path: Path, name: str, inside: str | None, columns: Any
) -> None:
    assert rows_of(str(make(tmp_path, name)), inside, columns)[0] == ROWS


@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.zarr"])
def test_an_array_is_known_before_it_is_read_and_gives_its_items(tmp_path: Path, name: str) -> None:
    path = str(make(tmp_path, name))
    with opened(path, "/grid") as found:
        assert isinstance(found, FileArray)
        assert (found.shape, found.dtype, found.word) == ((2, 3), numpy.dtype("f4"), "float")
        assert found.values().tolist() == [T, T]
    assert rows_of(path, "/group/n", None)[0] == N


def test_frames_give_a_row_each(tmp_path: Path) -> None:
    path = str(make(tmp_path, "a.extxyz"))
    assert rows_of(path, None, None)[0] == [
        {"atoms": 4, "n": n, "energy": t} for t, n in zip(T, N, strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "inside", "columns", "words"),
    [
        ("a.h5", "/nope", None, "there is no 'nope' in it; it has: grid, group, table"),
        ("a.parquet", None, ("x",), "there is no 'x' in it; it has: t, n, s"),
        ("a.nc", None, ("t", "grid"), r"no columns of one table: t \[3\], grid \[2, 3\]; name the `columns`"),
        ("a.zarr", "/deep/er", None, "there is no 'deep' in it"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    tmp_path: Path, name: str, inside: str | None, columns: Any, words: str
) -> None:
    with pytest.raises(BadData, match=words):
        rows_of(str(make(tmp_path, name)), inside, columns)[0]


@pytest.mark.parametrize("name", ["a.parquet", "a.h5", "a.nc", "a.zarr", "a.extxyz"])
def test_a_file_that_is_none_of_its_kind_is_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("just text\n")
    with pytest.raises(BadData, match=f"{name} cannot be read|line 1 is 'just text'|there is no|expected"):
        rows_of(str(path), None, ("t",))[0]


def test_without_the_library_the_pip_line_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(make(tmp_path, "a.h5"))
    monkeypatch.setattr(diel.base.formats.node, "lacking", lambda path: "h5py: pip install 'diel[data]'")
    with pytest.raises(BadData, match=r"to read a.h5 takes h5py: pip install 'diel\[data\]'"), opened(path):
        pass


def test_a_large_array_is_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diel.base.formats.node, "PIECE", 64)
    whole = numpy.arange(2 * 3 * 5 * 4.0).reshape(2, 3, 5, 4)
    pieces = list(sliced(whole.shape, 8, whole.__getitem__))
    assert max(piece.nbytes for _, piece in pieces) <= 64
    assert numpy.concatenate([piece.ravel() for _, piece in pieces]).tolist() == whole.ravel().tolist()
    for start, piece in pieces:
        assert whole[start] == piece.ravel()[0]


def test_what_is_no_number_becomes_text_or_null_in_rows(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="diel[tables] is not installed")
    from pyarrow import parquet

    day, moment = date(2020, 1, 31), datetime.fromisoformat("2020-01-31T12:30")
    columns = {
        "whole": ([7, None], None, [7, None]),
        "truth": ([True, None], None, [True, None]),
        "text": (["a", None], None, ["a", None]),
        "day": ([day, None], None, ["2020-01-31", None]),
        "us": ([moment, None], arrow.timestamp("us"), ["2020-01-31T12:30:00", None]),
        "ns": ([moment, None], arrow.timestamp("ns"), ["2020-01-31T12:30:00", None]),
        "zone": ([moment, None], arrow.timestamp("s", "UTC"), ["2020-01-31T12:30:00+00:00", None]),
        "clock": ([time(4, 5), None], None, ["04:05:00", None]),
        "decimal": ([Decimal("0.10"), Decimal("2.00")], None, [0.1, 2]),
        "bytes": ([b"ab", "é".encode()], None, ["ab", "é"]),
        "list": ([[day], []], None, [["2020-01-31"], []]),
        "none": ([None, None], None, [None, None]),
    }
    table = arrow.table({name: arrow.array(items, kind) for name, (items, kind, _) in columns.items()})
    parquet.write_table(table, tmp_path / "a.parquet")
    rows = rows_of(str(tmp_path / "a.parquet"), None, None)[0]
    assert {name: [row[name] for row in rows] for name in columns} == {n: c[2] for n, c in columns.items()}


@pytest.mark.parametrize("bad", [[b"\xff\x00"], [timedelta(1)]])
def test_what_no_axis_can_hold_is_told_with_its_column(tmp_path: Path, bad: Any) -> None:
    arrow = pytest.importorskip("pyarrow", reason="diel[tables] is not installed")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"x": bad}), tmp_path / "a.parquet")
    with pytest.raises(BadData, match=r"^a.parquet: x holds .*; expected numbers, texts or dates$"):
        rows_of(str(tmp_path / "a.parquet"), None, None)[0]


@pytest.mark.parametrize(
    ("array", "rows"),
    [
        (numpy.arange(2), [0, 1]),
        (numpy.array([[1, 2], [3, 4]], order="F"), [[1, 2], [3, 4]]),
        (numpy.array([(1, b"x")], dtype=[("n", "i4"), ("s", "S2")]), [{"n": 1, "s": "x"}]),
        (numpy.array(["2020-01-31", "NaT"], dtype="M8[ns]"), ["2020-01-31T00:00:00", None]),
        (numpy.zeros((0, 2)), []),
        (numpy.array(3.0), "it is one item, 3.0; expected a list of them"),
        (numpy.array([1j]), "it holds 1j; expected numbers"),
        (numpy.array([1], dtype="m8[ns]"), "it holds .*timedelta64"),
        (b"", "it holds no array"),
        (b"1 2 3", "it is no file of NumPy's, or holds pickled"),
    ],
)
def test_arrays_of_numpy_give_their_rows(tmp_path: Path, array: Any, rows: Any) -> None:
    path = tmp_path / "a.npy"
    _ = path.write_bytes(array) if isinstance(array, bytes) else numpy.save(path, array)
    if isinstance(rows, list):
        assert rows_of(str(path), None, None)[0] == rows
        return
    with pytest.raises(BadData, match=f"^a.npy.* ?{rows}"):
        rows_of(str(path), None, None)[0]


def test_arrays_saved_together_are_columns(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "a.npz", t=T, n=N)
    assert rows_of(str(tmp_path / "a.npz"), None, None)[0] == ROWS
    assert rows_of(str(tmp_path / "a.npz"), "/n", None)[0] == N


def test_missing_whole_numbers_are_no_numbers_and_no_columns_are_no_axis_without_points(
    tmp_path: Path,
) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("row", 2)
        file.createVariable("n", "i4", ("row",), fill_value=-9)[:] = numpy.ma.array(
            [1, 2], mask=[False, True]
        )
        file.createGroup("empty")
    assert rows_of(str(tmp_path / "a.nc"), "/n", None)[0] == [1, None]
    with pytest.raises(BadData, match="there are no columns in it; name a place"):
        rows_of(str(tmp_path / "a.nc"), "/empty", None)[0]


def test_what_is_read_from_no_library_is_told(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    with pytest.raises(BadData, match="parts is a directory: declare the files in it with `glob`"):
        load("frame", str(tmp_path / "parts"))
    with pytest.raises(BadData, match="a.dat has the suffix of no data"):
        load("dataarray", str(tmp_path / "a.dat"), "/x")
