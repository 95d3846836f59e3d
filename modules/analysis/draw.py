"""States drawn at random within a box."""

from __future__ import annotations

import random
from typing import Annotated, TypedDict

from pydantic import Field

import diel

Range = Annotated[list[float], Field(min_length=2, max_length=2)]


class Draw(TypedDict):
    """The states, as columns and one by one."""

    columns: dict[str, list[float]]
    states: list[dict[str, float]]


@diel.module(kind="analysis")
def draw(ranges: dict[str, Range], count: Annotated[int, Field(ge=1, le=1_000_000)], seed: int = 0) -> Draw:
    """Draw states, each feature uniformly between its bounds.

    ranges: [low, high] by feature
    count, seed: how many states to draw, and the seed of the draw
    """
    drawn = random.Random(seed)
    states = [{name: drawn.uniform(low, high) for name, (low, high) in ranges.items()} for _ in range(count)]
    return {"columns": {name: [state[name] for state in states] for name in ranges}, "states": states}
