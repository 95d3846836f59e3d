"""The tasks of a stage: the product of its axes' points, counted but never listed.

A task's index and its coordinates (one point index an axis) are two names of one thing. A derived
axis that was made once for each point of another axis is joined with it: its points carry the
coordinates that they were made at, and together the axes form one factor of the product.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

from diel.streams.services import REPLICA

Group = tuple[int, ...]
"""The coordinates that the tasks of a group share."""


@dataclass(frozen=True)
class Factor:
    """Axes that vary together, with their coordinates in `rows` (None for a plain axis), the latest last."""

    axes: tuple[str, ...]
    count: int
    rows: tuple[tuple[int, ...], ...] | None = None
    _projections: dict[tuple[int, ...], dict[tuple[int, ...], list[int]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def _numbers(self) -> dict[tuple[int, ...], int]:
        return {row: number for number, row in enumerate(self.rows or ())}

    def row(self, number: int) -> tuple[int, ...]:
        return (number,) if self.rows is None else self.rows[number]

    def number(self, row: tuple[int, ...]) -> int | None:
        """Return the position of a row; None if there is no such combination."""
        if self.rows is None:
            return row[0] if 0 <= row[0] < self.count else None
        return self._numbers.get(row)

    @cached_property
    def in_order(self) -> Sequence[int]:
        """The positions of all rows, by their coordinates."""
        rows = self.rows
        return range(self.count) if rows is None else sorted(range(self.count), key=rows.__getitem__)

    def matching(self, fixed: Mapping[str, int]) -> Sequence[int]:
        """Return the positions of the rows that agree with some fixed coordinates, by the others."""
        pinned = [(place, fixed[axis]) for place, axis in enumerate(self.axes) if axis in fixed]
        if not pinned:
            return self.in_order
        if self.rows is None:
            return (pinned[0][1],) if 0 <= pinned[0][1] < self.count else ()
        if len(pinned) == len(self.axes):
            number = self._numbers.get(tuple(fixed[axis] for axis in self.axes))
            return () if number is None else (number,)
        return self._projected(tuple(place for place, _ in pinned)).get(tuple(v for _, v in pinned), ())

    def _projected(self, places: tuple[int, ...]) -> dict[tuple[int, ...], list[int]]:
        cached = self._projections.get(places)
        if cached is None:
            cached = self._projections[places] = {}
            rows = self.rows or ()
            for number in self.in_order:
                cached.setdefault(tuple(rows[number][place] for place in places), []).append(number)
        return cached


@dataclass(frozen=True)
class Domain:
    """The tasks of one stage. Index 0 is the first point of every axis; the last axis varies fastest."""

    axes: tuple[str, ...]
    factors: tuple[Factor, ...]

    @cached_property
    def size(self) -> int:
        return prod(factor.count for factor in self.factors)

    @cached_property
    def _strides(self) -> tuple[int, ...]:
        return tuple(prod(f.count for f in self.factors[place + 1 :]) for place in range(len(self.factors)))

    @cached_property
    def _plain(self) -> bool:
        """Whether each factor is one axis, in the order of `axes`."""
        return tuple(a for f in self.factors for a in f.axes) == self.axes and all(
            f.rows is None for f in self.factors
        )

    def coordinates(self, index: int) -> dict[str, int]:
        """Return the point index on each axis of a task."""
        places: dict[str, int] = {}
        for factor, stride in zip(self.factors, self._strides, strict=True):
            number, index = divmod(index, stride)
            places.update(zip(factor.axes, factor.row(number), strict=True))
        return places

    def index(self, coordinates: Mapping[str, int]) -> int | None:
        """Return the task at these coordinates; None if there is none."""
        index = 0
        for factor, stride in zip(self.factors, self._strides, strict=True):
            number = factor.number(tuple(coordinates[axis] for axis in factor.axes))
            if number is None:
                return None
            index += number * stride
        return index

    def group(self, index: int, axes: tuple[str, ...]) -> Group:
        """Return the coordinates of a task on some axes."""
        if axes == self.axes and self._plain and len(self.factors) == 1:
            return (index,)
        coordinates = self.coordinates(index)
        return tuple(coordinates[axis] for axis in axes)

    def matching(self, fixed: Mapping[str, int]) -> Iterable[int]:
        """Return the tasks that agree with some coordinates, in the order of the axes, one at a time."""
        if not fixed and all(factor.rows is None for factor in self.factors):
            return range(self.size)
        numbers = [factor.matching(fixed) for factor in self.factors]
        rows, strides = product(*numbers), self._strides
        return (sum(number * stride for number, stride in zip(row, strides, strict=True)) for row in rows)

    def in_order(self, indices: Iterable[int]) -> list[int]:
        """Return tasks in the order of the axes: their numbers' order, unless axes have grown."""
        rows = self.factors[0].rows if len(self.factors) == 1 else None
        return sorted(indices, key=None if rows is None else rows.__getitem__)

    def count(self, fixed: Mapping[str, int]) -> int:
        """Return how many tasks agree with some coordinates."""
        return prod(len(factor.matching(fixed)) for factor in self.factors)


UNKNOWN = Domain((), (Factor((), 0, ()),))
"""That of a stage whose axes are not all known yet: it has no tasks."""


def make_domain(
    over: Sequence[str],
    counts: Mapping[str, int],
    origins: "Mapping[str, Origins]",
    replicas: int = 1,
    grown: Iterable[tuple[str, int]] = (),
) -> Domain:
    """Return the domain of a stage from the number of points of each axis. A derived axis is joined with
    those axes at which its points were made, by `origins`. Several `replicas` stand side by side at each
    point. `grown` has searches that were given more trials, with their former number, the latest last."""
    domain = _numbered(_product(over, counts, origins), [(axis, had) for axis, had in grown if axis in over])
    if replicas > 1:
        return Domain((*domain.axes, REPLICA), (*domain.factors, Factor((REPLICA,), replicas)))
    return domain


def _numbered(domain: Domain, grown: Sequence[tuple[str, int]]) -> Domain:
    """Return the same tasks, in front those from before the growth of axes."""
    first = domain.factors[0] if domain.factors else None
    if not grown or (first is not None and {axis for axis, _ in grown} == set(first.axes)):
        return domain  # the slowest axis: later points have later numbers anyway

    def came(row: tuple[int, ...]) -> int:
        """Return after how many steps."""
        places = dict(zip(domain.axes, row, strict=True))
        return max((step for step, (axis, had) in enumerate(grown, 1) if places[axis] >= had), default=0)

    rows = [tuple(domain.coordinates(index)[axis] for axis in domain.axes) for index in range(domain.size)]
    return Domain(domain.axes, (Factor(domain.axes, len(rows), tuple(sorted(rows, key=came))),))


def _product(over: Sequence[str], counts: Mapping[str, int], origins: "Mapping[str, Origins]") -> Domain:
    joined: dict[str, tuple[str, ...]] = {}
    for axis in over:
        shared = tuple(a for a in over if axis in origins and a in origins[axis].axes)
        if shared:
            joined[axis] = shared
    bound = {parent for parents in joined.values() for parent in parents}
    sharing = len(bound) < sum(len(parents) for parents in joined.values()) or bool(bound & joined.keys())
    apart = [joined] if sharing else [{axis: parents} for axis, parents in joined.items()]
    factors = [_joined(over, group, origins) for group in apart]
    placed = {axis for factor in factors for axis in factor.axes}
    factors += [Factor((axis,), counts[axis]) for axis in over if axis not in placed]
    if not sharing:
        factors.sort(key=lambda factor: over.index(factor.axes[0]))
    return Domain(tuple(over), tuple(factors))


class Origins(NamedTuple):
    """Where each point of a derived axis was made: its coordinates on the maker's axes."""

    axes: tuple[str, ...]
    rows: Sequence[tuple[int, ...]]


def _joined(
    over: Sequence[str], joined: Mapping[str, tuple[str, ...]], origins: Mapping[str, Origins]
) -> Factor:
    """Join derived axes with their parents; axes that share a parent keep the rows in which all agree."""
    axes = tuple(a for a in over if a in joined or any(a in parents for parents in joined.values()))
    rows: list[dict[str, int]] = [{}]
    for axis, parents in joined.items():
        columns = rows[0].keys() if rows else ()
        shared = [a for a in (axis, *parents) if a in columns]
        fitting: dict[tuple[int, ...], list[dict[str, int]]] = {}
        for point, row in enumerate(origins[axis].rows):
            coordinates = dict(zip(origins[axis].axes, row, strict=True))
            extra = {axis: point, **{parent: coordinates[parent] for parent in parents}}
            fitting.setdefault(tuple(extra[a] for a in shared), []).append(extra)
        rows = [{**row, **extra} for row in rows for extra in fitting.get(tuple(row[a] for a in shared), ())]
    listed = sorted(tuple(row[a] for a in axes) for row in rows)
    return Factor(axes, len(listed), tuple(listed))
