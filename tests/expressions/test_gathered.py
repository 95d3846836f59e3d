"""Values that keep their points, and meet by them."""

from __future__ import annotations

import pickle

import pytest

from diel.workflow.expressions.gathered import GatheredValues, align
from diel.workflow.expressions.quantity import ComputationError

A = GatheredValues([0, 20, 30], ("x",), [(0,), (2,), (3,)])
B = GatheredValues([1, 2, 3], ("x",), [(0,), (1,), (3,)])


def test_values_meet_at_the_points_that_all_have() -> None:
    one, other = align([A, B])
    assert (one, other) == ([0, 30], [1, 3])
    assert one.points == other.points == [(0,), (3,)]


def test_the_order_of_axes_counts_for_nothing() -> None:
    rows = GatheredValues([11, 12, 21, 22], ("x", "y"), [(0, 0), (0, 1), (1, 0), (1, 1)])
    columns = GatheredValues([11, 21, 12, 22], ("y", "x"), [(0, 0), (0, 1), (1, 0), (1, 1)])
    one, other = align([rows, columns])
    assert one == other == [11, 12, 21, 22]
    assert other.axes == ("x", "y")


def test_one_with_fewer_axes_is_repeated() -> None:
    table = GatheredValues([1, 2, 3], ("x", "y"), [(0, 0), (0, 1), (1, 0)])
    one, other = align([GatheredValues([10, 20], ("x",), [(0,), (1,)]), table])
    assert (one, other) == ([10, 10, 20], [1, 2, 3])


def test_axes_that_the_other_lacks_are_refused() -> None:
    with pytest.raises(ComputationError, match="no points in common"):
        align([A, GatheredValues([1], ("y",), [(0,)])])


def test_slices_and_keys_keep_the_points() -> None:
    assert (A[1:], A[1:].points) == ([20, 30], [(2,), (3,)])
    fits = GatheredValues([{"slope": 2}, None], ("x",), [(4,), (5,)])
    assert (fits["slope"], fits["slope"].points) == ([2, None], [(4,), (5,)])
    assert pickle.loads(pickle.dumps(A)).points == A.points


def test_each_value_has_a_point() -> None:
    with pytest.raises(ValueError, match="3 values at 1 points"):
        GatheredValues([1, 2, 3], ("x",), [(0,)])
