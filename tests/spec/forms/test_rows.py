"""Points that are rows of a CSV or JSON lines file, or of a list that a stage made."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.workflow.models.forms.axis import Points
from diel.workflow.models.forms.rows import read_points, rows_to_points
from tests.spec.forms.points import points_of, rows


def read(tmp_path: Path, name: str, text: str | bytes, columns: tuple[str, ...] | None = None) -> Points:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_points(path, "x", columns)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ("1 -2 0", [1, -2, 0]),
        ("1 2.5 1e-3 2E+2", [1.0, 2.5, 0.001, 200.0]),
        ("-0 0.5", [-0.0, 0.5]),
        ("0.5 9007199254740992", [0.5, 9007199254740992.0]),
        ("0.5 9007199254740993", ["0.5", "9007199254740993"]),
        *(
            (f"1 {cell} 2", ["1", cell, "2"])
            for cell in ["007", "+5", ".5", "1.", "0x10", "1_000", "inf", "nan", "TRUE", "1,5", "٣", "2-3"]
        ),
        ("7 12345678901234567890123", ["7", "12345678901234567890123"]),
        ("12E4 13F7", ["12E4", "13F7"]),
        ("2024-01-31 5", ["2024-01-31", "5"]),
    ],
)
def test_a_column_is_of_numbers_if_all_its_cells_are_plain_ones(
    tmp_path: Path, cells: str, values: list[object]
) -> None:
    text = "x,y\n" + "".join(f'"{cell}",\n' for cell in cells.split())
    found = read(tmp_path, "p.csv", text)
    assert [*map(repr, found.columns[0])] == [*map(repr, values)]
    assert found.columns[1] == [""] * len(values)


def test_blanks_around_a_number_make_a_text_of_its_column(tmp_path: Path) -> None:
    assert rows(read(tmp_path, "p.csv", "a\n 7 \n8\n")) == [(" 7 ",), ("8",)]


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("str", "007", "007"),
        ("str", " 1.10", " 1.10"),
        ("int", " 007 ", 7),
        ("float", ".5", 0.5),
        ("float", "2", 2.0),
        ("bool", "TRUE", True),
        *(("int", cell, None) for cell in ("8.0", "1_000", "0x10", "", "x", "1e3", "true")),
        *(("float", cell, None) for cell in ("1_0", "", "1,5", "1e400", "true")),
        *(("bool", cell, None) for cell in ("yes", "", "2")),
    ],
)
def test_a_declared_type_holds_for_each_cell(tmp_path: Path, kind: str, cell: str, value: object) -> None:
    path = tmp_path / "p.csv"
    path.write_text(f'a,b\n0,1\n1,"{cell}"\n', encoding="utf-8")
    if value is None:
        with pytest.raises(UsageError, match=rf"p.csv:3: column 'b': '{cell}'; expected {kind}"):
            read_points(path, "x", ("b",), types={"b": kind})
    else:
        found = read_points(path, "x", ("b",), types={"b": kind}).columns[0][1]
        assert (type(found), found) == (type(value), value)


def test_declared_types_hold_for_what_has_types_already(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"s": "7", "d": 1}\n{"s": 8, "d": null}\n', encoding="utf-8")
    assert read_points(path, "x", ("d",), types={"d": "float"}).columns == ([1, None],)
    with pytest.raises(UsageError, match="point 1: s is 8; expected str"):
        read_points(path, "x", None, types={"s": "str"})


def test_what_is_not_written_again_as_it_was_is_known(tmp_path: Path) -> None:
    text = "a,b,c,d,e\n1.5,1.10,12E4,-0,0.12345678901234567890\n100,0.25,2,3,1\n"
    lost = read(tmp_path, "p.csv", text).lost
    assert {name: cell for name, (cell, _) in lost.items()} == {
        "a": "100", "b": "1.10", "c": "12E4", "d": "-0", "e": "0.12345678901234567890"
    }  # fmt: skip


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
        ("p.csv", "a\n1e400\n", "p.csv:2: column 'a': 1e400: a number beyond 1.8e308"),
        ("p.csv", "a\n0.0\n-1.5e-400\n", "p.csv:3: column 'a': -1.5e-400: a number below 4.9e-324"),
        ("p.jsonl", '{"a": 1e400}', "p.jsonl:1: not a JSON value: a number beyond 1.8e308"),
        ("p.jsonl", '{"a": 1, "a": 2}', 'p.jsonl:1: not a JSON value: the key "a" is there twice'),
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
    with pytest.raises(UsageError, match="no column 'z'; it has: a"):
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
