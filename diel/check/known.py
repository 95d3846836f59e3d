"""The values that a stage's expressions can read before a run: points of its axes, and hyperparameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import gcd, prod
from typing import Any

from diel.check.violations import Check
from diel.expressions.expression import Chain
from diel.spec.forms.axis import Points

MOST = 100_000
"""The most different values of an axis to look at."""
_ROWS = 1_000_000

Axes = Mapping[str, tuple[str, ...]]
"""Parameters that are read, by axis."""
Place = tuple[int, ...]
"""The number of a point of each of these axes."""
_MOST_STEPS = 20_000
"""Places up to which all are looked at; of more, as many and the corners."""
_GOLDEN = (5**0.5 - 1) / 2


class Known:
    """The known points of axes, of searches under `hp.NAME`, and the values of hyperparameters."""

    def __init__(self, points: Mapping[str, Points], hyperparameters: Mapping[str, Any]) -> None:
        self.points, self.hyperparameters = points, hyperparameters
        self._owners = {name: label for label, own in points.items() for name in own.parameters}

    @classmethod
    def of(cls, check: Check, name: str, values: Mapping[str, Any]) -> Known:
        """Return the known values of a stage; `values` are those of all hyperparameters."""
        over, later = check.workflow.stages[name].over, check.set_later(name)
        points = {label: check.points[label] for label in over if label in check.points}
        return cls(points, {label: value for label, value in values.items() if label not in later})

    def axes(self, references: Iterable[Chain]) -> Axes | None:
        """Return the axes that are read, with the parameters; None if only the run shows what is read."""
        columns: dict[str, set[str]] = {}
        for first, second in ((*read, "")[:2] for read in references):
            label = f"hp.{second}" if first == "hp" else self._owners.get(first, first)
            if label in self.points:
                names = self.points[label].parameters
                own = first if first in names else second
                columns.setdefault(label, set()).update({own} & {*names} or names)
            elif first != "hp" or second not in self.hyperparameters:
                return None
        return {label: tuple(sorted(columns[label])) for label in self.points if label in columns}

    def places(self, axes: Axes) -> Iterator[Place]:
        """Yield the places to look at: all, or of many the corners and others evenly spread."""
        return spread([len(self.points[label]) for label in axes])

    def unlike(self, axes: Axes) -> Iterator[Place]:
        """Yield a place for each combination of different values that are read."""
        return product(*(list(self.different(label, names)) for label, names in axes.items()))

    def different(self, label: str, names: Iterable[str]) -> Iterator[int]:
        """Yield the first point of an axis with each combination of values of some parameters."""
        columns = [self._column(label, name) for name in names]
        marks: set[str] = set()
        for index in range(min(len(self.points[label]), _ROWS)):
            if (mark := repr([column[index] for column in columns])) not in marks:
                marks.add(mark)
                yield index
                if len(marks) == MOST:
                    return

    def scope(self, axes: Axes, place: Place) -> dict[str, Any]:
        """Return the scope of an expression at a place."""
        scope: dict[str, Any] = {"hp": self.hyperparameters}
        for (label, names), index in zip(axes.items(), place, strict=True):
            own = {name: self._column(label, name)[index] for name in names}
            if label.startswith("hp."):
                scope["hp"] = {**scope["hp"], label.removeprefix("hp."): own[label]}
            scope |= {label: own, **own}
        return scope

    def _column(self, label: str, name: str) -> Sequence[Any]:
        points = self.points[label]
        return points.columns[points.parameters.index(name)]


def spread(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield places of a product of `sizes`: all, or its corners and `_MOST_STEPS` evenly spread, some perhaps
    twice; their stride shares no divisor with the product's size, so that each axis is covered."""
    total = prod(sizes)
    if total <= _MOST_STEPS:
        yield from product(*map(range, sizes))
        return
    yield from islice(product(*(sorted({0, size - 1}) for size in sizes)), _MOST_STEPS)
    step = round(total * _GOLDEN)
    while gcd(step, total) > 1:
        step += 1
    for number in range(_MOST_STEPS):
        yield _place(number * step % total, sizes)


def _place(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    place = []
    for size in reversed(sizes):
        number, point = divmod(number, size)
        place.append(point)
    return tuple(reversed(place))
