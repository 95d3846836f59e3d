"""Gathered values: each keeps its point, so that values meet by point and never by position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from diel.expressions.quantity import Undefined

Point = tuple[int, ...]
"""The place of a value: the number of a point of each axis, in the order of the axes."""


class Gathered(list[Any]):
    """The values of several tasks along axes, each with its point.

    It is a list, so that what only counts or shows values needs to know nothing of it. A slice keeps the
    points; a key, as in `a.fit.slope`, is read of each value.
    """

    __slots__ = ("axes", "points")

    def __init__(self, values: Iterable[Any], axes: tuple[str, ...], points: Sequence[Point]) -> None:
        """`points` has a tuple for each value, with a number for each axis. Raises ValueError otherwise."""
        super().__init__(values)
        if len(points) != len(self):
            raise ValueError(f"{len(self)} values at {len(points)} points")
        self.axes = axes
        self.points = points

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.map(lambda item: None if item is None else item[key])
        item = super().__getitem__(key)
        return Gathered(item, self.axes, self.points[key]) if isinstance(key, slice) else item

    def map(self, function: Callable[[Any], Any]) -> Gathered:
        """Return what a function gives for each value, at the same points."""
        return Gathered(map(function, self), self.axes, self.points)

    def plain(self) -> list[Any]:
        """Return the values alone."""
        return list(self)


class ListText(str):
    """A text that was written of gathered values, so that it can be written again of fewer."""

    source: Gathered
    write: Callable[[Sequence[Any]], str]

    @classmethod
    def of(cls, source: Gathered, write: Callable[[Sequence[Any]], str]) -> ListText:
        """Write gathered values."""
        made = cls(write(source.plain()))
        made.source, made.write = source, write
        return made


def align(values: Sequence[Gathered]) -> Sequence[Gathered]:
    """Return the values at the points that all have (an inner join), in the order of the one with most axes.

    One with fewer axes is repeated along the others. Raises Undefined where it has an axis that these lack.
    """
    wide = max(values, key=lambda one: len(one.axes))
    if all(one.axes == wide.axes and one.points == wide.points for one in values):
        return values
    parts = [_part(one, wide) for one in values]
    tables = [dict(zip(one.points, one, strict=True)) for one in values]
    pairs = list(zip(parts, tables, strict=True))
    points = [point for point in wide.points if all(part(point) in table for part, table in pairs)]
    return [Gathered([table[part(point)] for point in points], wide.axes, points) for part, table in pairs]


def _part(one: Gathered, wide: Gathered) -> Callable[[Point], Point]:
    """What gives the point of one value from that of another with more axes."""
    if one.axes == wide.axes:
        return lambda point: point
    alone = [axis for axis in one.axes if axis not in wide.axes]
    if alone:
        found = f"axes {', '.join(one.axes)} and {', '.join(wide.axes)}"
        hint = "reduce one of them first, with mean() or sum() for instance"
        raise Undefined(f"values gathered over {found} have no points in common", hint)
    places = [wide.axes.index(axis) for axis in one.axes]
    if len(places) == 1:
        place = places[0]
        return lambda point: (point[place],)
    return itemgetter(*places)
