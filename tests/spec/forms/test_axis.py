"""Points of an axis: found by what they give, and kept for a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.workflow.models.forms.axis import Points, keep, read_kept
from diel.workflow.models.forms.rows import rows_to_points
from tests.spec.forms.points import points_of, rows


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
        ({"zip": {"a": [1, 1, 2], "b": [3, 4, 4]}}, 4, None),
        ({"values": [0, True, 1]}, True, 1),
        ({"values": [True, 1.0000000001, 1.0000000002]}, 1.0000000001, 1),
        ({"values": [1, math.nan, -math.inf]}, "NaN", 1),
        ({"values": [1, math.nan, -math.inf]}, "-Infinity", 2),
        ({"values": ["NaN", math.nan, 1]}, "NaN", 0),
        ({"values": [[1, math.nan], [1, 2]]}, [1, "NaN"], 0),
        ({"values": [[1, math.nan], [1, 2]]}, [1.0, math.nan], 0),
    ],
)
def test_a_point_is_found_by_its_value_or_its_parameters(
    axis: dict[str, Any], wanted: Any, index: int | None
) -> None:
    assert points_of(axis).find(wanted) == ([] if index is None else [index])


@pytest.mark.parametrize(
    ("axis", "wanted", "places"),
    [
        ({"values": [1, True, 1.0]}, 1, [0]),
        ({"values": [[1, 2], [1.0, 2], [True, 2]]}, [1.0, 2], [1]),
        ({"values": [[1, 2.5], [3, 4]]}, [1.0, 2.5000000000001], [0]),
        ({"zip": {"a": [1, 1.0, 1.0], "b": [5, 4, 4]}}, {"a": 1, "b": 4}, [1, 2]),
        ({"values": [1.0, 1.0000000001]}, 1.00000000005, [0, 1]),
        ({"zip": {"a": [1, 1, 2], "b": [3, 4, 4]}}, {"b": 4}, [1, 2]),
        ({"zip": {"a": [1, 1, 2], "b": [3, 4, 4]}}, {"a": 1, "b": 4}, [1]),
        ({"zip": {"a": [1, 1], "b": [3, 4]}}, {}, [0, 1]),
    ],
)
def test_of_points_that_are_alike_all_are_told(axis: dict[str, Any], wanted: Any, places: list[int]) -> None:
    assert points_of(axis).find(wanted) == places


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.tuples(JSON, JSON), max_size=5))
def test_points_that_are_kept_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[Any, Any]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "kept.jsonl"
    points = rows_to_points([{"a": a, "b": b} for a, b in values], "x", ("a", "b"), "test")
    keep(points, path)
    again = read_kept(path)
    assert again is not None
    assert (again.parameters, rows(again)) == (("a", "b"), values)


def test_points_that_were_never_kept_are_none(tmp_path: Path) -> None:
    assert read_kept(tmp_path / "x.jsonl") is None


def test_whole_numbers_are_told_apart_however_near_they_are() -> None:
    points = Points.of_rows(("id",), [[20260101007], [31], [3e10 / 3]])
    assert points.find(20260101008) == []
    assert points.find(20260101007) == [0]
    assert points.find(1e10 * (1 + 1e-12)) == [2]
