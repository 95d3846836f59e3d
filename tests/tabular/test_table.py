"""Rows from lists, mappings and files are the same table; what is wrong with them is told where it is."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from diel.tabular import Table

COLUMNS = {"a": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0], "b": [7.0, 8.0, 9.0]}


def written(path: Path, columns: dict[str, list[float]]) -> Path:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
    return path


def test_lists_mappings_and_files_make_the_same_table(tmp_path: Path) -> None:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    top = written(tmp_path / "top.csv", {name: values[:1] for name, values in COLUMNS.items()})
    rest = written(tmp_path / "rest.csv", {name: COLUMNS[name][1:] for name in ("y", "b", "a")})
    for table in (
        Table.from_columns(COLUMNS, "y"),
        Table.from_rows(rows, "y"),
        Table.from_files([top, rest], "y"),
    ):
        assert table.names == ("a", "b")
        assert table.features.tolist() == [[1.0, 7.0], [2.0, 8.0], [3.0, 9.0]]
        assert table.target.tolist() == [4.0, 5.0, 6.0]


def test_the_features_asked_for_keep_their_order() -> None:
    assert Table.from_columns(COLUMNS, "a", ["b", "y"]).features.tolist()[0] == [7.0, 4.0]


def test_too_few_rows_are_refused_with_what_they_are_for() -> None:
    table = Table.from_columns(COLUMNS, "y")
    assert table.at_least(3) is table
    with pytest.raises(ValueError, match="at least 4 rows, two of them held out; found 3"):
        table.at_least(4, "two of them held out")


def test_predictions_stand_beside_what_was_observed(tmp_path: Path) -> None:
    some = Table.from_columns(COLUMNS, "y").take(np.array([2, 0]))
    path = some.save_predictions(tmp_path / "said.csv", np.array([6.5, 4.5]))
    assert path.read_text().splitlines() == ["a,b,observed,predicted", "3.0,9.0,6.0,6.5", "1.0,7.0,4.0,4.5"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1_000,2\n", "line 2, column 'a', holds '1_000'; expected a finite number"),
        ("a,b\n1,2\n\n3\n", "t.csv:4: 1 value, but the header names 2 columns"),
        ("a,a\n1,2\n", "t.csv:1: the header names 'a' twice"),
        ("", "t.csv: empty; expected a header line"),
    ],
)
def test_a_file_is_read_as_axes_read_it(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=told):
        Table.from_files([tmp_path / "t.csv"], "b")
