"""Tables: how they read, and that CSV and Parquet files hold what was in them."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from diel.base.errors import DielError
from diel.store.artifacts import Artifact
from diel.store.table import Listing, csv_text, render, short_path, shown, write_parquet


def table(columns: str, *rows: tuple[object, ...]) -> Listing:
    return Listing(tuple(columns.split()), list(rows), {})


def test_numbers_are_aligned_to_the_right_and_texts_to_the_left() -> None:
    lines = list(render(table("name loss", ("a", 0.5), ("longer", 12), ("b", None))))
    assert lines == ["name    loss", "──────  ────", "a        0.5", "longer    12", "b"]


def test_a_table_without_rows_has_its_header() -> None:
    assert list(render(table("a b"))) == ["a  b", "─  ─"]


def test_a_column_of_truth_values_is_no_column_of_numbers() -> None:
    assert list(render(table("ok more", (True, 1), (False, 22))))[2:] == ["true      1", "false    22"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (1 / 3, "0.3333333333333333"),
        (1e-9, "1e-09"),
        (12345678, "12345678"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (True, "true"),
        ([1, "é"], '[1, "é"]'),
        ("two\nlines\t\x1b[31m", "two\\nlines\\t\\x1b[31m"),
        ("x" * 50, "x" * 39 + "…"),
        ("\udcff", "\\udcff"),
    ],
)
def test_a_cell_is_short_on_one_line_and_harmless_to_a_terminal(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_path_is_never_cut_and_is_told_from_here_where_it_lies_below(workspace: Path) -> None:
    inside, outside = str(workspace / ("d" * 60) / "f"), "/elsewhere/" + "d" * 60
    assert shown(Artifact(inside, "0")) == "d" * 60 + "/f"
    assert shown(Artifact(outside, "0")) == outside
    assert short_path(f"{workspace}-other/f") == f"{workspace}-other/f"


def test_a_csv_file_gives_back_every_value() -> None:
    rows = [("a, b", 0.1, None, [1, "x"]), ('say "hi"\nthere', 1e-300, True, {"k": 1})]
    header, *lines = csv.reader(io.StringIO(csv_text(table("name x flag more", *rows))))
    assert header == ["name", "x", "flag", "more"]
    assert [(line[0], float(line[1])) for line in lines] == [row[:2] for row in rows]
    assert [line[2] for line in lines] == ["", "true"]
    assert [json.loads(line[3]) for line in lines] == [row[3] for row in rows]


def test_a_parquet_file_keeps_types_and_says_which_columns_are_texts(tmp_path: Path) -> None:
    rows = [
        (1, 0.5, "x", Artifact("/runs/f", "0"), 2**64 - 1, 2**70, [1]),
        (2, None, 3, None, 1, -1, "é"),
        (3, 1, True, None, None, None, None),
    ]
    notes = write_parquet(table("n loss mixed file large huge list", *rows), tmp_path / "t.parquet")
    assert parquet.read_table(tmp_path / "t.parquet").to_pydict() == {
        "n": [1, 2, 3],
        "loss": [0.5, None, 1.0],
        "mixed": ["x", "3", "true"],
        "file": ["/runs/f", None, None],
        "large": [2**64 - 1, 1, None],
        "huge": [str(2**70), "-1", None],
        "list": ["[1]", "é", None],
    }
    assert notes == [
        "column 'mixed' is text: it holds bool and int and str, no one type for all",
        "column 'huge' is text: it holds whole numbers beyond 64 bits",
        "column 'list' is text: it holds list and str, no one type for all",
    ]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([10**16 + 1, 0.1], "floats, and whole numbers beyond 2^53"),
        ([0.5, 2**64 - 1], "floats, and whole numbers beyond 2^53"),
        ([1.5, True], "bool and float, no one type for all"),
        ([[True], [1.5]], "list, no one type for all"),
        ([[1.5, 0.5], [False]], "list, no one type for all"),
        ([[10**16 + 1, 0.1]], "list, no one type for all"),
        ([[2**64], [1]], "list, no one type for all"),
        ([{"k": True}, {"k": 1.5}], "dict, no one type for all"),
        ([{}, {}, None], "dict, no one type for all"),
        ([[{}]], "list, no one type for all"),
        ([{"k": {}}], "dict, no one type for all"),
        ([{"a": 1}, {"b": 2.5}, {}], "dict, no one type for all"),
        ([{"a": 1}, {"a": 1, "b": None}], "dict, no one type for all"),
        ([[{"a": 1}], [{"b": 1}]], "list, no one type for all"),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], "dict, no one type for all"),
    ],
)
def test_a_parquet_file_holds_as_text_what_no_type_of_its_own_would_give_back(
    tmp_path: Path, values: list[object], why: str
) -> None:
    notes = write_parquet(table("x", *((value,) for value in values)), tmp_path / "t.parquet")
    texts = [None if value is None else json.dumps(value) for value in values]
    assert parquet.read_table(tmp_path / "t.parquet").to_pydict() == {"x": texts}
    assert notes == [f"column 'x' is text: it holds {why}"]


@pytest.mark.parametrize(
    "values",
    [
        [1, 0.5, None],
        [2**53, 0.5],
        [math.nan, math.inf, -1],
        [[1], [0.5], []],
        [[math.nan]],
        [None, None],
        [[], []],
        [{"k": 1, "l": [True]}, {"k": 0.5, "l": []}],
        [{"k": 1, "l": None}, None, {"k": None, "l": "x"}],
    ],
)
def test_a_parquet_file_holds_numbers_that_fit_one_type(tmp_path: Path, values: list[object]) -> None:
    assert write_parquet(table("x", *((value,) for value in values)), tmp_path / "t.parquet") == []
    assert repr(parquet.read_table(tmp_path / "t.parquet")["x"].to_pylist()).replace(".0", "") == repr(values)


def test_a_parquet_file_without_pyarrow_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DielError, match=r"pip install 'diel\[tables\]'"):
        write_parquet(table("n", (1,)), tmp_path / "t.parquet")


def test_a_parquet_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(DielError, match=r"cannot write .*nowhere"):
        write_parquet(table("n", (1,)), tmp_path / "nowhere" / "t.parquet")
