"""Points that are rows of a CSV or JSON lines file, or of a list that a stage made."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.errors import UsageError
from diel.spec.forms.axis import Points
from diel.spec.forms.rows import read_points, rows_to_points
from tests.spec.forms.points import points_of, rows


def read(tmp_path: Path, name: str, text: str | bytes, columns: tuple[str, ...] | None = None) -> Points:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_points(path, "x", columns)


def test_csv_cells_have_the_types_that_yaml_gives_them(tmp_path: Path) -> None:
    text = "a,b,c\n1,1e-3,no\n 2 ,.5,01:00:00\n,true,007\n"
    points = read(tmp_path, "p.csv", text)
    assert points.parameters == ("a", "b", "c")
    assert rows(points) == [(1, 0.001, "no"), (2, 0.5, "01:00:00"), (None, True, 7)]


def test_csv_quotes_keep_commas_line_ends_and_spaces(tmp_path: Path) -> None:
    points = read(tmp_path, "p.csv", 'a,b\r\n"x, y"," lead"\r\n"two\r\nlines","say ""hi"""\r\n')
    assert rows(points) == [("x, y", " lead"), ("two\r\nlines", 'say "hi"')]


def test_a_byte_order_mark_and_blank_lines_are_no_points(tmp_path: Path) -> None:
    points = read(tmp_path, "p.csv", "\ufeffa\n1\n\n2\n\n")
    assert points.parameters == ("a",)
    assert rows(points) == [(1,), (2,)]


def test_columns_choose_and_order_the_parameters(tmp_path: Path) -> None:
    assert rows(read(tmp_path, "p.csv", "a,b,my col\n1,2,3\n", ("b", "a"))) == [(2, 1)]


def test_jsonl_points_are_objects_or_plain_values(tmp_path: Path) -> None:
    points = read(tmp_path, "p.jsonl", '{"a": 1, "b": "é"}\n\n{"b": [2], "a": null}\n')
    assert (points.parameters, rows(points)) == (("a", "b"), [(1, "é"), (None, [2])])
    points = read(tmp_path, "q.jsonl", "1\n[2, 3]\n")
    assert (points.parameters, rows(points)) == (("x",), [(1,), ([2, 3],)])


def test_a_json_text_may_hold_what_unicode_calls_a_line_separator(tmp_path: Path) -> None:
    assert rows(read(tmp_path, "p.jsonl", '"a\u2028b"\n"c\x85d"\r\n')) == [("a\u2028b",), ("c\x85d",)]


def test_a_json_list_is_a_file_of_points_too(tmp_path: Path) -> None:
    assert rows(read(tmp_path, "p.json", '[{"a": 1}, {"a": 2}]')) == [(1,), (2,)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.csv", "", "empty; expected a header"),
        ("p.csv", "a,b\n1,2\n3\n", "p.csv:3: 1 value, but the header names 2 columns"),
        ("p.csv", "a,b,a\n1,2,3\n", "p.csv:1: the header names 'a' twice"),
        ("p.csv", "a,my col\n1,2\n", "column 'my col' is not a parameter name"),
        ("p.csv", "a\n" + "x" * 200_000 + "\n", "p.csv:2: not CSV"),
        ("p.csv", b"a\n\xff\n", "is not UTF-8 (byte 2)"),
        ("p.jsonl", '{"a": 1}\n{"a":\n', "p.jsonl:2: not a JSON value"),
        ("p.jsonl", "[" * 100_000, "p.jsonl:1: not a JSON value"),
        ("p.jsonl", '{"a": 1}\n{"b": 2}\n', "point 1 has no 'a'; it has: b"),
        ("p.jsonl", '{"a": 1}\n{"a": 2, "b": 3}\n', "point 1 has 'b', and the first one has not"),
        ("p.jsonl", '{"a": 1}\n5\n', "point 1 has no 'a'; it has: 5"),
        ("p.json", '{"a": 1}', "expected a list of points"),
        ("p.json", "[1, ", "not JSON"),
    ],
)
def test_a_file_that_holds_no_points_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, name, text)
    assert message in str(error.value)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"axis 'x': cannot read .*none\.csv: no such file"):
        points_of({"file": "none.csv"}, tmp_path)
    with pytest.raises(UsageError, match="it is a directory"):
        read_points(tmp_path, "x", None)


def test_a_column_that_a_file_lacks_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="point 0 has no 'z'; it has: a"):
        read(tmp_path, "p.csv", "a\n1\n", ("z",))


def test_plain_values_have_no_columns_to_choose_from() -> None:
    with pytest.raises(UsageError, match="gives plain values, not columns a, b"):
        rows_to_points([1, 2], "x", ("a", "b"), "make.points")
    assert rows_to_points([1, 2], "x", ("x",), "make.points").parameters == ("x",)
    assert rows_to_points([1, 2], "x", ("a",), "make.points").parameters == ("a",)


def test_lists_give_columns_by_position(tmp_path: Path) -> None:
    found = rows_to_points([[1, 2], [3, 4]], "x", ("a", "b"), "make.points")
    assert (found.parameters, rows(found)) == (("a", "b"), [(1, 2), (3, 4)])
    assert rows(rows_to_points([[1, 2]], "x", None, "make.points")) == [([1, 2],)]
    with pytest.raises(UsageError, match=r"make.points: point 1 is \[3\]; expected 2 items, for a, b"):
        rows_to_points([[1, 2], [3]], "x", ("a", "b"), "make.points")
    assert rows(read(tmp_path, "p.tsv", "a\tb\n1\t2\n")) == [(1, 2)]


def test_no_rows_keep_the_columns_that_were_declared() -> None:
    assert rows_to_points([], "x", ("a", "b"), "make.points").parameters == ("a", "b")
    assert rows_to_points([], "x", None, "make.points").parameters == ("x",)
