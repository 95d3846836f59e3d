"""Points of axes: computed, listed, read from files, drawn."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.errors import DielError, UsageError
from diel.spec import AxisForm, Workflow
from diel.spec.forms.axis import Points, keep, kept
from diel.spec.forms.rows import read_points, rows_to_points

HERE = Path()
FINITE = st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 6))


def workflow(axis: dict[str, Any], **more: Any) -> Workflow:
    stages = {"s": {"command": ["true"], "over": ["x"]}}
    return Workflow.model_validate({"diel": 1, "name": "w", "axes": {"x": axis}, "stages": stages, **more})


def points_of(axis: dict[str, Any], folder: Path = HERE, **more: Any) -> Points:
    spec = workflow(axis, **more)
    known = spec.hyperparameters
    points = spec.axes["x"].points_of("x", known, folder)
    assert spec.axes["x"].size(known) in (None, len(points))
    return points


def column(points: Points, name: str = "x") -> list[Any]:
    place = points.parameters.index(name)
    return [points.values(index)[place] for index in range(len(points))]


# --- computed and listed ------------------------------------------------------------------------


@given(FINITE, FINITE, st.integers(1, 50))
def test_linspace_is_numpys(first: float, last: float, count: int) -> None:
    if first == last and count > 1:
        return
    values = column(points_of({"linspace": [first, last, count]}))
    expected = numpy.linspace(first, last, count)
    assert values[0] == expected[0]
    assert values[-1] == expected[-1]
    numpy.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-9)
    assert all(type(value) is float for value in values)


@given(st.integers(-300, 300), st.integers(-300, 300), st.integers(1, 50))
def test_logspace_is_numpys_with_exponents_of_ten(first: int, last: int, count: int) -> None:
    if first == last and count > 1:
        return
    values = column(points_of({"logspace": [first, last, count]}))
    expected = numpy.logspace(first, last, count)
    assert values[0] == pytest.approx(expected[0], rel=1e-15)
    assert values[-1] == pytest.approx(expected[-1], rel=1e-15)
    numpy.testing.assert_allclose(values, expected, rtol=1e-10)


def test_ends_that_are_further_apart_than_a_double_reaches_give_numbers_all_the_same() -> None:
    assert column(points_of({"linspace": [-1.5e308, 1.5e308, 3]})) == [-1.5e308, 0.0, 1.5e308]


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_range_is_pythons(start: int, stop: int, step: int) -> None:
    expected = list(range(start, stop, step))
    if expected:
        assert column(points_of({"range": [start, stop, step]})) == expected


def test_a_range_may_have_one_or_two_bounds() -> None:
    assert column(points_of({"range": 3})) == [0, 1, 2]
    assert column(points_of({"range": [2, 4]})) == [2, 3]


def test_values_keep_their_order_and_their_type() -> None:
    listed = [3, 1.0, "01", True, None, [1, 2], {"a": 1}]
    values = column(points_of({"values": listed}))
    assert values == listed
    assert [type(value) for value in values] == [type(value) for value in listed]


def test_a_zip_varies_its_parameters_together() -> None:
    points = points_of({"zip": {"a": [1, 2, 3], "b": {"linspace": [0.0, 1.0, 3]}, "c": {"range": 3}}})
    assert points.parameters == ("a", "b", "c")
    assert [points.values(index) for index in range(3)] == [(1, 0.0, 0), (2, 0.5, 1), (3, 1.0, 2)]


def test_a_billion_points_are_counted_and_read_without_being_listed() -> None:
    points = points_of({"linspace": [0.0, 1.0, 10**9]})
    assert len(points) == 10**9
    assert points.values(10**9 - 1) == (1.0,)
    assert len(points_of({"range": 10**9})) == 10**9


def test_a_computed_column_ends_where_it_ends() -> None:
    """What walks over it, `in` for one, must come to an end."""
    spec = workflow({"zip": {"a": {"linspace": [0.0, 1.0, 3]}}})
    points = spec.axes["x"].points_of("x", {}, HERE)
    assert list(points.columns[0]) == [0.0, 0.5, 1.0]
    with pytest.raises(IndexError):
        points.values(3)


# --- picking ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "wanted", "index"),
    [
        ({"values": [1, 2, 3]}, 2, 1),
        ({"values": [1, 2, 3]}, 2.0, 1),
        ({"values": ["2", 2]}, 2, 1),
        ({"linspace": [0.0, 1.0, 11]}, 0.3, 3),
        ({"logspace": [-3, 0, 4]}, 0.01, 1),
        ({"values": [0.0, 1e-12]}, 1e-12, 1),
        ({"values": [1, 2]}, {"x": 2}, 1),
        ({"values": [{"a": 1}, {"a": 2}]}, {"a": 2}, 1),
        ({"values": [1, 2]}, 3, None),
        ({"values": [1, 2]}, {"y": 2}, None),
        ({"zip": {"a": [1, 1, 2], "b": [3, 4, 4]}}, {"a": 1, "b": 4}, 1),
        ({"zip": {"a": [1, 1, 2], "b": [3, 4, 4]}}, {"b": 4}, 1),
        ({"zip": {"a": [1, 1, 2], "b": [3, 4, 4]}}, 4, None),
    ],
)
def test_a_point_is_found_by_its_value_or_its_parameters(
    axis: dict[str, Any], wanted: Any, index: int | None
) -> None:
    assert points_of(axis).find(wanted) == index


# --- files --------------------------------------------------------------------------------------


def read(tmp_path: Path, name: str, text: str | bytes, columns: tuple[str, ...] | None = None) -> Points:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_points(path, "x", columns)


def rows(points: Points) -> list[tuple[Any, ...]]:
    return [points.values(index) for index in range(len(points))]


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
        ("p.csv", "a,my col\n1,2\n", "column 'my col' is no parameter name"),
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
    with pytest.raises(UsageError, match="gives plain values, no columns a, b"):
        rows_to_points([1, 2], "x", ("a", "b"), "make.points")
    assert rows_to_points([1, 2], "x", ("x",), "make.points").parameters == ("x",)


def test_no_rows_keep_the_columns_that_were_declared() -> None:
    assert rows_to_points([], "x", ("a", "b"), "make.points").parameters == ("a", "b")
    assert rows_to_points([], "x", None, "make.points").parameters == ("x",)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.tuples(JSON, JSON), max_size=5))
def test_points_that_are_kept_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[Any, Any]]
) -> None:
    path = tmp_path_factory.mktemp("axes") / "x.jsonl"
    points = rows_to_points([{"a": a, "b": b} for a, b in values], "x", ("a", "b"), "test")
    keep(points, path)
    again = kept(path)
    assert again is not None
    assert (again.parameters, rows(again)) == (("a", "b"), values)


def test_points_that_were_never_kept_are_none(tmp_path: Path) -> None:
    assert kept(tmp_path / "x.jsonl") is None


# --- samples ------------------------------------------------------------------------------------


def sample(method: str, points: int, parameters: Any, seed: int = 0, **more: Any) -> Points:
    spec = {"method": method, "points": points, "parameters": parameters, "seed": seed}
    return points_of({"sample": spec}, **more)


METHODS = st.sampled_from(["lhs", "sobol", "uniform"])


@given(METHODS, st.integers(1, 40), st.integers(0, 5), st.booleans(), st.data())
def test_a_sample_stays_inside_its_bounds(
    method: str, count: int, seed: int, log: bool, data: st.DataObject
) -> None:
    low = data.draw(st.floats(1e-9, 1e3) if log else st.floats(-1e9, 1e9))
    high = low + data.draw(st.floats(1e-3, 1e9))
    points = sample(method, count, {"u": {"low": low, "high": high, "log": log}}, seed)
    assert all(low <= value <= high for value in column(points, "u"))
    assert len(points) == count


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("low", [1e-5, 0.1, 3.3e7])
def test_a_range_as_narrow_as_rounding_is_kept_to(low: float, log: bool) -> None:
    high = low * (1 + 4e-16)
    values = column(sample("uniform", 50, {"u": {"low": low, "high": high, "log": log}}), "u")
    assert all(low <= value <= high for value in values)


@pytest.mark.parametrize("kind", ["int", "float"])
def test_bounds_that_are_further_apart_than_a_double_reaches_are_drawn_between(kind: str) -> None:
    values = column(sample("uniform", 200, {"u": {"low": -1.7e308, "high": 1.7e308, "type": kind}}), "u")
    assert 0.4 < sum(value < 0 for value in values) / 200 < 0.6
    assert all(-1.7e308 <= value <= 1.7e308 for value in values)
    assert len(set(values)) == 200


def test_a_bound_that_no_double_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="beyond a double"):
        sample("uniform", 2, {"u": {"low": 0, "high": 10**400, "type": "int"}})


@given(METHODS, st.integers(1, 30), st.booleans(), st.floats(0.1, 9), st.floats(1, 90))
def test_whole_numbers_are_whole_and_inside_their_bounds(
    method: str, count: int, log: bool, low: float, width: float
) -> None:
    if math.ceil(low) > math.floor(low + width):
        return
    bounds = {"low": low, "high": low + width, "log": log, "type": "int"}
    values = column(sample(method, count, {"n": bounds}), "n")
    assert all(type(value) is int and low <= value <= low + width for value in values)


@pytest.mark.parametrize(("low", "high"), [(1, 4), (0.6, 4.4)])
def test_each_whole_number_is_as_likely_as_another(low: float, high: float) -> None:
    points = sample("lhs", 400, {"n": {"low": low, "high": high, "type": "int"}})
    values = column(points, "n")
    assert [values.count(n) for n in (1, 2, 3, 4)] == [100] * 4


@given(st.integers(1, 60), st.integers(0, 3))
def test_a_latin_hypercube_has_one_point_in_each_stratum_of_each_parameter(count: int, seed: int) -> None:
    points = sample("lhs", count, {"u": {"low": 0, "high": 1}, "v": {"low": 0, "high": 1}}, seed)
    for name in ("u", "v"):
        strata = sorted(int(value * count) for value in column(points, name))
        assert strata == list(range(count))


def test_a_latin_hypercube_on_a_logarithmic_scale_has_one_point_in_each_decade() -> None:
    values = column(sample("lhs", 6, {"u": {"low": 1e-3, "high": 1e3, "log": True}}), "u")
    assert sorted(math.floor(math.log10(value)) for value in values) == [-3, -2, -1, 0, 1, 2]


@pytest.mark.parametrize("power", [0, 1, 4, 6])
def test_a_sobol_sequence_is_balanced_in_both_halves(power: int) -> None:
    count = 2**power
    points = sample("sobol", count, {"u": {"low": 0, "high": 1}, "v": {"low": 0, "high": 1}})
    for name in ("u", "v"):
        assert sorted(int(value * count) for value in column(points, name)) == list(range(count))


@pytest.mark.parametrize("method", ["lhs", "sobol", "uniform"])
def test_a_seed_gives_the_same_points_again_and_another_seed_others(method: str) -> None:
    ranges = {"u": {"low": 0, "high": 1}, "v": {"low": 1, "high": 9, "type": "int"}}
    first, again, other = (rows(sample(method, 10, ranges, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_a_longer_sobol_sequence_begins_with_the_shorter_one() -> None:
    """So that adding points computes only the new ones."""
    ranges = {"u": {"low": 0, "high": 1}}
    assert rows(sample("sobol", 10, ranges)) == rows(sample("sobol", 25, ranges))[:10]
    assert rows(sample("uniform", 10, ranges)) == rows(sample("uniform", 25, ranges))[:10]


def test_ranges_may_come_from_the_registry() -> None:
    registry = {
        "rate": {"type": "float", "default": 0.1, "low": 1e-4, "high": 1.0, "log": True},
        "width": {"type": "int", "default": 2, "low": 1, "high": 8},
    }
    points = sample("lhs", 8, ["rate", "width"], hyperparameters=registry)
    assert points.parameters == ("rate", "width")
    assert sorted(column(points, "width")) == list(range(1, 9))
    assert sum(value < 1e-2 for value in column(points, "rate")) == 4


def test_a_design_that_needs_scipy_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(DielError, match=r"pip install 'diel\[sample\]'"):
        sample("lhs", 4, {"u": {"low": 0, "high": 1}})
    assert len(sample("uniform", 4, {"u": {"low": 0, "high": 1}})) == 4


def test_a_samples_points_can_be_written_as_json() -> None:
    points = sample("sobol", 4, {"u": {"low": 0, "high": 1}, "n": {"low": 0, "high": 9, "type": "int"}})
    assert json.loads(json.dumps(rows(points))) == [list(row) for row in rows(points)]


def test_a_samples_size_is_known_without_drawing_it() -> None:
    spec = {"method": "sobol", "points": 10_000_000, "parameters": {"u": {"low": 0, "high": 1}}}
    assert AxisForm.model_validate({"sample": spec}).axis.size({}) == 10_000_000
