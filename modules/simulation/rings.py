"""Rings that an activator and its inhibitor make on a disc, out of a spot in the middle.

    ∂u/∂t = a² ∇²u + u − u³ − σ v + κ,    τ ∂v/∂t = b² ∇²v + u − v,    τ = 0.2

Activator and inhibitor of R. FitzHugh, Biophys. J. 1, 445 (1961), that diffuse as those of A. M. Turing,
Phil. Trans. R. Soc. B 237, 37 (1952), on a disc of radius 1 that nothing leaves. Both are at rest at
first, but for a spot where u is larger by exp(−(r/w)²). Only the radius counts: rings are finite volumes,
whose operator has one set of eigenvectors for all sets of parameters, so that a step of many simulations
is a few products of matrices. Steps are of second order, implicit in diffusion (SBDF of U. M. Ascher et
al., SIAM J. Numer. Anal. 32, 797 (1995)).

simulation.rings         sets of parameters that are drawn at random
simulation.rings:of      sets that are given
simulation.rings:rate    how long one takes, beside a network that learned them
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel
from diel import tabular

if TYPE_CHECKING:
    from pydantic import Field

Floats = NDArray[np.float64]

NAMES = ("activator", "inhibitor", "supply", "coupling", "spot")
"""a, b, κ, σ and w."""
CELLS = 48
PLACES = 24
"""Points of a course along the radius: means of u over pairs of cells."""
TAU = 0.2
STEP = 0.1
BATCH = 250
"""Sets that are simulated at a time: their fields stay in the processor's cache."""
BLOCK = 8192


class Rings(TypedDict):
    """Simulated sets."""

    parameters: Path
    """.npy, shape (sets, 5): activator, inhibitor, supply, coupling, spot."""
    courses: Path
    """.npy, float32, shape (sets, 24): u along the radius, in the end."""


class Rate(TypedDict):
    """Medians of processor time on one core, in microseconds a set."""

    alone: float
    """A simulation of one set."""
    together: float
    """Of 250 that share their steps."""
    network: float
    """A prediction, of as many in a call as `inference.screen` has in a block."""


@diel.module(kind="simulation")
def rings(
    context: diel.Context,
    ranges: dict[str, list[float]],
    count: Annotated[int, Field(ge=1)],
    time: Annotated[float, Field(gt=0)] = 20.0,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Rings:
    """Simulate sets of parameters that are drawn evenly.

    ranges: [low, high] of activator, inhibitor, supply, coupling and spot
    count: sets
    time: at which the rings are looked at
    seed: of the draw

    Raise ValueError where other names have ranges.
    """
    drawn = _drawn(ranges, count, np.random.default_rng(seed))
    return _saved(drawn, time, context)


@diel.module(kind="simulation")
def of(
    sets: list[dict[str, float]], context: diel.Context, time: Annotated[float, Field(gt=0)] = 20.0
) -> Rings:
    """Simulate sets of parameters that are given, for instance the best of a screen.

    sets: with activator, inhibitor, supply, coupling and spot; more names are passed over
    time: at which the rings are looked at
    """
    return _saved(np.array([[parameters[name] for name in NAMES] for parameters in sets]), time, context)


@diel.module(kind="simulation")
def rate(
    model: Path,
    ranges: dict[str, list[float]],
    time: Annotated[float, Field(gt=0)] = 20.0,
    repeats: Annotated[int, Field(ge=1)] = 5,
) -> Rate:
    """Measure how long simulations take, one at a time and many at a time, and a model's predictions.

    model: .npz that reads these parameters, as `inference.screen` takes it
    ranges, time: as of `simulation.rings`; sets are drawn from the ranges
    repeats: of which the median is taken, of all three in turns
    """
    network, rng = tabular.Model.load(model), np.random.default_rng(0)
    many = _drawn(ranges, BLOCK, rng)
    ways: dict[str, tuple[int, Callable[[], object]]] = {
        "alone": (1, lambda: simulated(many[:1], time)),
        "together": (BATCH, lambda: simulated(many[:BATCH], time)),
        "network": (BLOCK, lambda: network.predict(many)),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, (count, call) in ways.items():
            began = process_time()
            call()
            times[name].append((process_time() - began) / count * 1e6)
    medians = {name: median(values) for name, values in times.items()}
    return {"alone": medians["alone"], "together": medians["together"], "network": medians["network"]}


def _drawn(ranges: dict[str, list[float]], count: int, rng: np.random.Generator) -> Floats:
    """Return sets, shape (count, 5). Raise ValueError."""
    bounds = [ranges.get(name, []) for name in NAMES]
    if len(ranges) != len(NAMES) or any(len(pair) != 2 for pair in bounds):
        raise ValueError(f"expected ranges [low, high] of {', '.join(NAMES)}; found {ranges}")
    low, high = np.array(bounds).T
    return rng.uniform(low, high, size=(count, len(NAMES)))


def _saved(sets: Floats, time: float, context: diel.Context) -> Rings:
    parts = range(0, len(sets), BATCH)
    fields = np.concatenate([simulated(sets[at : at + BATCH], time)[0] for at in parts])
    courses = fields.reshape(len(sets), PLACES, -1).mean(axis=2).astype(np.float32)
    folder = context.task_dir
    np.save(folder / "parameters.npy", sets)
    np.save(folder / "courses.npy", courses)
    return {"parameters": folder / "parameters.npy", "courses": folder / "courses.npy"}


def simulated(sets: Floats, time: float, cells: int = CELLS, step: float = STEP) -> Floats:
    """Return u and v at a time, shape (2, sets, cells), of sets of shape (sets, 5)."""
    a, b, supply, coupling, spot = (sets[:, [n]] for n in range(len(NAMES)))
    values, there, back = modes(cells)
    rest = resting(supply, coupling)
    radius = (np.arange(cells) + 0.5) / cells
    u = rest + np.exp(-((radius / spot) ** 2))
    fields = np.stack([u, np.broadcast_to(rest, u.shape)])
    spread = step * np.stack([a**2, b**2 / TAU]) * values

    def change() -> Floats:
        u, v = fields
        return np.stack([u - u**3 - coupling * v + supply, (u - v) / TAU])

    was, grew = fields, change()
    fields = ((fields + step * grew) @ there / (1 - spread)) @ back  # one step of first order
    for _ in range(round(time / step) - 1):
        grows = change()
        explicit = 2 * fields - 0.5 * was + step * (2 * grows - grew)
        was, grew = fields, grows
        fields = (explicit @ there / (1.5 - spread)) @ back
    return fields


def modes(cells: int) -> tuple[Floats, Floats, Floats]:
    """Return eigenvalues of ∇² on a disc in rings of equal width, shape (cells,), and two matrices, shape
    (cells, cells): they take rows of values to rows of coefficients, and back."""
    faces = np.arange(cells + 1) / cells
    volume = np.diff(faces**2) / 2
    flow = np.diag(faces[1:-1] * cells, 1)
    flow = flow + flow.T
    operator = flow - np.diag(flow.sum(axis=1))
    root = np.sqrt(volume)
    values, vectors = np.linalg.eigh(operator / np.outer(root, root))  # symmetric: real eigenvalues
    return values, root[:, None] * vectors, vectors.T / root


def resting(supply: Floats, coupling: Floats) -> Floats:
    """Return where u = v stays, (1 − σ) u − u³ + κ = 0, of the same shape; by bisection between −2 and 2."""
    low, high = np.full(supply.shape, -2.0), np.full(supply.shape, 2.0)
    for _ in range(50):
        middle = (low + high) / 2
        falls = (1 - coupling) * middle - middle**3 + supply < 0
        low, high = np.where(falls, low, middle), np.where(falls, middle, high)
    return np.asarray(middle)
