"""The points of a grid over listed hyperparameters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod
from typing import Any

from diel.search.space import Space

SHUFFLED = 1_000_000
"""Points up to which a grid's order is a shuffled list; of a larger one a small part is run anyway."""


def grid_points(space: Space, seed: int) -> Iterator[dict[str, Any]]:
    """Each point once, in a random order, so that a part of them is spread over the whole.

    Of points that differ only in hyperparameters which their `when` leaves out, there is one.
    """
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
