"""The heat equation ∂u/∂t = ∇²u on a rectangular plate, by the explicit five-point scheme.

simulation.heat         the plate as a whole
simulation.heat:part    one of several strips, each a task of its own, which exchange their edges through the
                        tuple space after each step

A point's new value is u + r (sum of its four neighbours - 4 u), with r = Δt/Δx², which is stable up to 1/4
(R. Courant, K. Friedrichs, H. Lewy, Math. Ann. 100, 32 (1928)). The plate's edges keep their values. Lengths
are in units of Δx, times in units of Δx² over the diffusivity. A strip does the arithmetic of the whole
plate, so that all strips together equal it in every bit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel

if TYPE_CHECKING:  # diel reads annotations as text
    from pydantic import Field

Plate = NDArray[np.float64]
"""Values of shape (rows, columns). Columns are next to each other from left to right."""

PATIENCE = 120.0
"""Seconds to wait for a neighbour's edge."""


class Whole(TypedDict):
    """The plate after its last step."""

    field: Plate
    steps: int
    heat: float
    """Sum of all values."""


class Part(TypedDict):
    """A strip after its last step."""

    field: Plate
    """Its own columns, without those of its neighbours."""
    steps: int
    first: int
    """Number of its first column in the plate."""
    exchanged: int
    """Edges that the strip put for its neighbours."""
    waited: float
    """Seconds for which the strip waited for its neighbours' edges."""


@diel.module(kind="simulation")
def heat(
    rows: Annotated[int, Field(ge=3)] = 48,
    columns: Annotated[int, Field(ge=3)] = 64,
    steps: Annotated[int, Field(ge=0)] = 400,
    rate: Annotated[float, Field(gt=0, le=0.25)] = 0.2,
) -> Whole:
    """Let heat spread over a plate with one hot edge and a hot spot.

    rows, columns: grid points from top to bottom and from left to right, edges included
    steps, rate: how many steps of time, and r = Δt/Δx²
    """
    field = start(rows, columns)
    for _ in range(steps):
        field = step(field, rate)
    return {"field": field, "steps": steps, "heat": float(field.sum())}


@diel.module(kind="simulation")
def part(
    context: diel.Context,
    number: Annotated[int, Field(ge=0)],
    parts: Annotated[int, Field(ge=1)] = 2,
    rows: Annotated[int, Field(ge=3)] = 48,
    columns: Annotated[int, Field(ge=3)] = 64,
    steps: Annotated[int, Field(ge=0)] = 400,
    rate: Annotated[float, Field(gt=0, le=0.25)] = 0.2,
    plate: str = "plate",
) -> Part:
    """Simulate one strip of the plate, beside the tasks of the other strips.

    number: which strip, counted from the left
    parts: strips of the plate; as many tasks must run at the same time (`beside`)
    plate: begins the keys in the tuple space; give each plate its own, where a run has several

    A task that was killed and runs again gets the same edges, and its neighbours see no difference. Raise
    ValueError where a strip would have no column, and TimeoutError where a neighbour does not come.
    """
    if not (number < parts <= columns):
        raise ValueError(f"expected a number below {parts} of at most {columns} strips; found {number}")
    first, end = number * columns // parts, (number + 1) * columns // parts
    has_left, has_right = number > 0, number < parts - 1  # neighbours
    space = context.space if has_left or has_right else None
    waited = 0.0
    # with a neighbour's column on either side
    field = start(rows, columns)[:, first - has_left : end + has_right]
    for now in range(steps):
        field = step(field, rate)
        if space is None:
            continue
        if has_left:
            space.put((plate, number, number - 1, now), field[:, 1])
        if has_right:
            space.put((plate, number, number + 1, now), field[:, -2])
        began = time.perf_counter()
        if has_left:
            field[:, 0] = space.take((plate, number - 1, number, now), PATIENCE)[1]
        if has_right:
            field[:, -1] = space.take((plate, number + 1, number, now), PATIENCE)[1]
        waited += time.perf_counter() - began
    return {
        "field": field[:, int(has_left) : field.shape[1] - has_right],
        "steps": steps,
        "first": first,
        "exchanged": steps * (has_left + has_right),
        "waited": waited,
    }


def start(rows: int, columns: int) -> Plate:
    """Return the plate before the first step: its left edge hot, and a hot spot left of its middle."""
    down, along = np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, 1, columns), indexing="ij")
    field: Plate = 2 * np.exp(-80 * ((along - 0.45) ** 2 + (down - 0.4) ** 2))
    field[0] = field[-1] = field[:, -1] = 0.0
    field[:, 0] = 1.0
    return field


def step(field: Plate, rate: float) -> Plate:
    """Return the plate one step later: a new array; the outermost rows and columns keep their values."""
    new = field.copy()
    around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
    new[1:-1, 1:-1] += rate * (around - 4 * field[1:-1, 1:-1])
    return new
