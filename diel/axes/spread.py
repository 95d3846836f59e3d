"""The places to look at in a product of axes that is too large to look at whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import gcd, prod

MOST = 20_000
"""Places up to which all are looked at; of more, as many and the corners."""
_GOLDEN = (5**0.5 - 1) / 2


def spread(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield places of a product: all of them, or its corners and `MOST` others, evenly spread.

    `sizes` has the number of points of each axis, and a place a number for each. The steps between the others
    have no divisor in common with the size of the product, so that each axis is covered evenly too. A place
    may come twice.
    """
    total = prod(sizes)
    if total <= MOST:
        yield from product(*map(range, sizes))
        return
    yield from islice(product(*(sorted({0, size - 1}) for size in sizes)), MOST)
    step = round(total * _GOLDEN)
    while gcd(step, total) > 1:
        step += 1
    for number in range(MOST):
        yield _place(number * step % total, sizes)


def _place(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    place = []
    for size in reversed(sizes):
        number, point = divmod(number, size)
        place.append(point)
    return tuple(reversed(place))
