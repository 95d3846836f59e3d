"""An axis as a file writes it: values that are listed or computed, one form at a time."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from diel.workflow.models import AxisForm
from tests.spec.forms.points import HERE, column, points_of, workflow

FINITE = st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 6))


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


@pytest.mark.parametrize(
    ("form", "count"),
    [
        ({"values": [1, None, "a"]}, 3),
        ({"linspace": [0, 1.5, 7]}, 7),
        ({"linspace": [3, 3, 1]}, 1),
        ({"logspace": [-3, 0, 4]}, 4),
        ({"range": 4}, 4),
        ({"range": [4]}, 4),
        ({"range": [2, 10, 3]}, 3),
        ({"range": [5, 0, -2]}, 3),
        ({"range": 10**9}, 10**9),
    ],
)
def test_an_axis_counts_its_points_without_listing_them(form: dict[str, Any], count: int) -> None:
    assert AxisForm.model_validate(form).axis.size({}) == count


@pytest.mark.parametrize("span", [[-5, -1, 5], [0, 3, 2], [0.5, 1.5, 3], [2, 2, 1]])
def test_logspace_with_exponents_is_taken(span: list[float]) -> None:
    assert AxisForm.model_validate({"logspace": span}).logspace == tuple(span)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"values": [1], "range": 2}, "expected one form, found values and range"),
        ({}, "found none of the forms of an axis"),
        ({"values": []}, "an axis without points"),
        ({"linspace": [0, 1, 0.1]}, "count: expected a whole number, found 0.1"),
        ({"logspace": [0.9, 1, 4]}, "logspace takes exponents of ten"),
        ({"range": [3, 3]}, "holds no number"),
        ({"zip": {"a": [1, 2], "b": [1]}}, "the lists differ in length: a has 2, b has 1"),
        ({"range": 2, "columns": ["a"]}, "`columns` goes with `from`"),
    ],
)
def test_what_is_no_axis_is_refused_in_words(form: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AxisForm.model_validate(form)
