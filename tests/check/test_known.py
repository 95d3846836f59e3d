"""What is looked at of a product of axes is all of it, or its corners and places all over it."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from diel.planning.check.violations import _MOST_STEPS, spread


@pytest.mark.parametrize("sizes", [(), (1,), (3, 4), (2, 0), (100, 200)])
def test_few_places_are_looked_at_one_by_one(sizes: tuple[int, ...]) -> None:
    assert list(spread(sizes)) == list(product(*map(range, sizes)))


@pytest.mark.parametrize("sizes", [(1_000_000,), (1000, 1000), (50, 400, 50), (2, 10_001), (1 << 20,)])
def test_of_many_the_corners_and_each_part_of_each_axis_are_among_them(sizes: tuple[int, ...]) -> None:
    places = set(spread(sizes))
    assert _MOST_STEPS <= len(places) <= _MOST_STEPS + 2 ** len(sizes)
    assert set(product(*({0, size - 1} for size in sizes))) <= places
    for axis, size in enumerate(sizes):
        points = sorted({place[axis] for place in places})
        widest = max(after - before for before, after in pairwise(points))
        assert widest <= 2 + 4 * size // _MOST_STEPS


def test_the_corners_of_many_axes_are_not_all_looked_at() -> None:
    assert len(list(spread([2] * 30))) == 2 * _MOST_STEPS
