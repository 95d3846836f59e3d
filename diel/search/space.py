"""The space that a search draws from, and its points where all are listed: a grid."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from diel.expressions import parse_expression
from diel.spec import Hyperparameter

_parsed = lru_cache(maxsize=256)(parse_expression)
SHUFFLED = 1_000_000
"""Points up to which a grid's order is a shuffled list; of a larger one, only a small part is run anyway."""


class Space(NamedTuple):
    """Hyperparameters in the order in which they are drawn: after those that their `when` reads."""

    parameters: Mapping[str, Hyperparameter]
    fixed: Mapping[str, Any]
    """The values of the others, and of those whose `when` does not hold."""

    def is_drawn(self, name: str, drawn: Mapping[str, Any]) -> bool:
        """Whether a hyperparameter is drawn, given those that were drawn before it."""
        condition = self.parameters[name].when
        if condition is None:
            return True
        return bool(_parsed(condition).value({"hp": {**self.fixed, **drawn}}))


def space_of(names: tuple[str, ...], known: Mapping[str, Hyperparameter], fixed: Mapping[str, Any]) -> Space:
    """The space of a search's `parameters`."""
    ordered: dict[str, Hyperparameter] = {}

    def add(name: str) -> None:
        if name in ordered or name not in names:
            return
        for other in conditions(known[name]):
            add(other)
        ordered[name] = known[name]

    for name in names:
        add(name)
    return Space(ordered, fixed)


def conditions(given: Hyperparameter) -> tuple[str, ...]:
    """The hyperparameters that one's `when` reads."""
    references = () if given.when is None else _parsed(given.when).references
    return tuple(sorted(name[1] for name in references if name[0] == "hp" and len(name) > 1))


def within(given: Hyperparameter, value: Any) -> Any:
    """A drawn number in its type and bounds: a sum of steps can be a rounding error beyond them."""
    assert given.low is not None
    assert given.high is not None
    kind = int if given.type == "int" else float
    return kind(min(max(value, given.low), given.high))


def place_of(value: Any, listed: Sequence[Any]) -> int:
    """The place of a value in a list; 1 and true are two values."""
    return next(place for place, one in enumerate(listed) if one == value and type(one) is type(value))


def grid_points(space: Space, seed: int) -> Iterator[dict[str, Any]]:
    """Yield each point once, in a random order, so that a part of them is spread over the whole. Of points
    that differ only in hyperparameters which their `when` leaves out, there is one."""
    listed = {name: given.listed or () for name, given in space.parameters.items()}
    for number in _order(prod(len(values) for values in listed.values()), seed):
        point: dict[str, Any] = {}
        fresh = True
        for name, values in listed.items():
            number, place = divmod(number, len(values))
            if space.is_drawn(name, point):
                point[name] = values[place]
            else:
                fresh = fresh and place == 0
        if fresh:
            yield point


def _order(size: int, seed: int) -> Iterator[int]:
    draw = random.Random(seed)
    if size <= SHUFFLED:
        yield from draw.sample(range(size), size)
        return
    seen: set[int] = set()
    while len(seen) < size:
        number = draw.randrange(size)
        if number not in seen:
            seen.add(number)
            yield number
