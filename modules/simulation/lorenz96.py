"""Lorenz's model of weather on a circle of latitude: a true course, noisy sensors, forecasts of an ensemble.

    dx_i/dt = (x_{i+1} − x_{i−2}) x_{i−1} − x_i + F

E. N. Lorenz and K. A. Emanuel, J. Atmos. Sci. 55, 399 (1998), eq. 1; F = 8 is chaotic. A step of 0.05, by
Runge and Kutta's method of fourth order, stands for six hours.

simulation.lorenz96            the truth, and what sensors say of it
simulation.lorenz96:forecast   a part of an ensemble, taken on by the equations or by a network
simulation.lorenz96:rows       what a network learns a step from
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel
from diel import tabular

if TYPE_CHECKING:
    from pydantic import Field

States = NDArray[np.float64]
"""Shape (…, variables)."""

STEP = 0.05
FORCING = 8.0
SPIN_UP = 400
"""Steps until a state is one of the attractor's."""
REACH = range(-4, 4)
"""Neighbours that a network reads to take a variable on: those that matter within a step."""


class Truth(TypedDict):
    """One course, its observations, and an ensemble."""

    truth: States
    """Shape (steps, variables), after each step."""
    observations: States
    """Shape (steps, sensors): with noise of unit variance."""
    ensemble: States
    """Shape (members, variables): states to begin with, drawn far from the truth."""


class Forecast(TypedDict):
    """A part of an ensemble on its way."""

    course: States
    """Shape (steps, members of the part, variables), after each step."""


class Rows(TypedDict):
    """Rows of single variables."""

    table: Path
    """CSV with their neighbours, `x-4` to `x+3`, and their `change` in a step."""


@diel.module(kind="simulation")
def lorenz96(
    steps: Annotated[int, Field(ge=1)],
    sensors: Annotated[int, Field(ge=1)] = 40,
    members: Annotated[int, Field(ge=2)] = 20,
    variables: Annotated[int, Field(ge=4)] = 40,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Truth:
    """Take a state on, and observe variables that are evenly spaced.

    steps: of 0.05
    sensors: a divisor of the variables; each reads one of them at each step, with an error of variance 1
    members: states to begin an ensemble with
    seed: of the course, its noise and the ensemble

    Raise ValueError where the sensors do not divide the variables.
    """
    if variables % sensors:
        raise ValueError(f"sensors must divide the {variables} variables; found {sensors}")
    rng = np.random.default_rng(seed)
    states = settled(rng, 1 + members, variables)
    truth = course(states[:1], steps)[:, 0]
    readings = truth[:, :: variables // sensors]
    noisy = readings + rng.standard_normal(readings.shape)
    return {"truth": truth, "observations": noisy, "ensemble": states[1:]}


@diel.module(kind="simulation")
def forecast(
    ensemble: States,
    steps: Annotated[int, Field(ge=1)],
    network: Path | None = None,
    by: Literal["equations", "network"] = "equations",
    part: Annotated[int, Field(ge=0)] = 0,
    parts: Annotated[int, Field(ge=1)] = 1,
) -> Forecast:
    """Take members part, part + parts, … of an ensemble on.

    ensemble: shape (members, variables)
    network: .npz of a training on `rows`, for `by: network`
    """
    mine = ensemble[part::parts]
    if by == "equations":
        return {"course": course(mine, steps)}
    if network is None:
        raise ValueError("by: network needs the input `network`, a model that was trained on `rows`")
    model, courses = tabular.Model.load(network), []
    for _ in range(steps):
        near = np.stack([np.roll(mine, -shift, axis=-1) for shift in REACH], axis=-1)
        mine = mine + model.predict(near.reshape(-1, len(REACH))).reshape(mine.shape)
        courses.append(mine)
    return {"course": np.array(courses)}


@diel.module(kind="simulation")
def rows(
    context: diel.Context,
    count: Annotated[int, Field(ge=40)] = 20_000,
    variables: Annotated[int, Field(ge=8)] = 40,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Rows:
    """Take a step of single variables by the equations, from random states of the attractor.

    count, seed: how many rows, and the seed of the states
    """
    rng = np.random.default_rng(seed)
    states = settled(rng, -(-count // variables), variables)
    columns = [*(np.roll(states, -shift, axis=-1) for shift in REACH), course(states, 1)[0] - states]
    table = context.task_dir / "rows.csv"
    names = [*(f"x{shift:+d}" for shift in REACH), "change"]
    values = np.stack([column.ravel() for column in columns], axis=1)[:count]
    np.savetxt(table, values, fmt="%.7g", delimiter=",", header=",".join(names), comments="")
    return {"table": table}


def settled(rng: np.random.Generator, count: int, variables: int) -> States:
    """Return states of the attractor, shape (count, variables)."""
    return np.asarray(course(FORCING + rng.standard_normal((count, variables)), SPIN_UP)[-1])


def course(states: States, steps: int) -> States:
    """Return the states after each step, shape (steps, …)."""
    track = np.empty((steps, *states.shape))
    for place in range(steps):
        k1 = change(states)
        k2 = change(states + STEP / 2 * k1)
        k3 = change(states + STEP / 2 * k2)
        states = states + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + change(states + STEP * k3))
        track[place] = states
    return track


def change(states: States) -> States:
    """Return dx/dt, of the same shape."""
    after, before, second = (np.roll(states, shift, axis=-1) for shift in (-1, 1, 2))
    return np.asarray((after - second) * before - states + FORCING)
