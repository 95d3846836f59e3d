"""A pendulum that swings wide, in units of √(length / gravity): a small swing has the period 2π."""

from __future__ import annotations

import math
from typing import Annotated, TypedDict

from pydantic import Field

import diel


class Swing(TypedDict):
    """Where the pendulum is."""

    angle: float
    """In radians, 0 where it hangs down."""
    speed: float
    """Of the angle, in radians a unit of time."""
    energy_drift: float
    """What the integration added to the energy, in units of gravity × length × mass."""


@diel.module(kind="simulation")
def swing(
    amplitude: Annotated[float, Field(ge=0, lt=math.pi)],
    time: Annotated[float, Field(ge=0)],
    steps: Annotated[int, Field(ge=10, le=100_000_000)] = 1000,
) -> Swing:
    """Release a pendulum, and integrate its swing by velocity Verlet.

    amplitude: the angle at which it is let go, in radians
    time, steps: how long it swings, in units of √(length / gravity), and in how many time steps
    """
    step = time / steps
    angle, speed = amplitude, 0.0
    for _ in range(steps):
        speed -= step / 2 * math.sin(angle)
        angle += step * speed
        speed -= step / 2 * math.sin(angle)
    drift = speed**2 / 2 - math.cos(angle) + math.cos(amplitude)
    return {"angle": angle, "speed": speed, "energy_drift": drift}
