"""States on a uniform grid."""

from __future__ import annotations

from itertools import product
from typing import Annotated, TypedDict

from pydantic import Field

import diel


class Grid(TypedDict):
    """The states, twice: an axis takes them row by row, a model column by column."""

    states: list[dict[str, float]]
    """The last parameter varies fastest."""
    columns: dict[str, list[float]]
    count: int


@diel.module(kind="analysis")
def grid(
    ranges: Annotated[
        dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]], Field(min_length=1)
    ],
    side: Annotated[int, Field(ge=2, le=100_000)],
) -> Grid:
    """Lay a grid of evenly spaced states, both ends included.

    ranges: [low, high] by parameter
    side: states along each parameter; `side` to the power of the parameters in all

    An axis `{from: lay.states}` of a stage `lay` then runs a stage over them.
    """
    steps = range(side)
    values = [[low + (high - low) * step / (side - 1) for step in steps] for low, high in ranges.values()]
    states = [dict(zip(ranges, state, strict=True)) for state in product(*values)]
    columns = {name: [state[name] for state in states] for name in ranges}
    return {"states": states, "columns": columns, "count": len(states)}
