"""What is in a file of the field: shapes and types first, items when asked, rows of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import diel.formats.node
from diel.formats.node import BadData, FileArray, opened, rows_of, sliced
from tests.formats.made import N, T, make, numpy

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
    assert rows_of(str(make(tmp_path, name)), inside, columns) == ROWS


@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.zarr"])
def test_an_array_is_known_before_it_is_read_and_gives_its_items(tmp_path: Path, name: str) -> None:
    path = str(make(tmp_path, name))
    with opened(path, "/grid") as found:
        assert isinstance(found, FileArray)
        assert (found.shape, found.dtype, found.word) == ((2, 3), numpy.dtype("f4"), "float")
        assert found.values().tolist() == [T, T]
    assert rows_of(path, "/group/n", None) == N


def test_frames_give_a_row_each(tmp_path: Path) -> None:
    path = str(make(tmp_path, "a.extxyz"))
    assert rows_of(path, None, None) == [{"atoms": 4, "n": n, "energy": t} for t, n in zip(T, N, strict=True)]


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
        rows_of(str(make(tmp_path, name)), inside, columns)


@pytest.mark.parametrize("name", ["a.parquet", "a.h5", "a.nc", "a.zarr", "a.extxyz"])
def test_a_file_that_is_none_of_its_kind_is_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("just text\n")
    with pytest.raises(BadData, match=f"{name} cannot be read|line 1 is 'just text'|there is no|expected"):
        rows_of(str(path), None, ("t",))


def test_without_the_library_the_pip_line_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(make(tmp_path, "a.h5"))
    monkeypatch.setattr(diel.formats.node, "lacking", lambda path: "h5py: pip install 'diel[data]'")
    with pytest.raises(BadData, match=r"to read a.h5 takes h5py: pip install 'diel\[data\]'"), opened(path):
        pass


def test_a_large_array_is_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diel.formats.node, "PIECE", 64)
    whole = numpy.arange(2 * 3 * 5 * 4.0).reshape(2, 3, 5, 4)
    pieces = list(sliced(whole.shape, 8, whole.__getitem__))
    assert max(piece.nbytes for _, piece in pieces) <= 64
    assert numpy.concatenate([piece.ravel() for _, piece in pieces]).tolist() == whole.ravel().tolist()
    for start, piece in pieces:
        assert whole[start] == piece.ravel()[0]
