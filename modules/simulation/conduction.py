"""Conduction of heat in a plate, by a solver that can be differentiated: it finds a plate's conductivity.

    −∇·(k ∇T) = q,  T = 0 at the rim of the unit square

by finite volumes (S. V. Patankar, Numerical Heat Transfer and Fluid Flow, section 4.2): Dᵀ diag(c) D T = q,
where D takes differences across faces, and c, a face's conductance, is the harmonic mean of its cells' k.

simulation.conduction            a true field, drawn by seed, and the temperatures that it makes
simulation.conduction:gradient   the gradient of a loss beside central differences
simulation.conduction:recover    a field from noisy readings
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_matrix, diags, eye, kron, vstack
from scipy.sparse.linalg import splu

import diel

Array = NDArray[np.float64]

HEATERS = torch.tensor([[0.3, 0.3], [0.7, 0.3], [0.3, 0.7], [0.7, 0.7], [0.5, 0.5]], dtype=torch.float64)
"""Middles of round heaters; each is on alone while temperatures are read."""
LENGTH = 0.15
"""Over which a field is expected to vary."""
WAVES = 12
"""Half waves along a side of the fields that a recovery may find, and one."""
FACTOR = 10**0.25
"""From one weight of the regularisation to the next."""


class Truth(TypedDict):
    """A plate as it is."""

    field: Array
    """Shape (cells, cells): logarithms of conductivities."""
    readings: Array
    """Shape (heaters, sensors²), without noise."""


class ConductionCheck(TypedDict):
    """The gradient of half the sum of squared readings with respect to the field."""

    difference: float
    """Norm of gradient minus differences, by that of the gradient."""
    largest: float
    """Of the differences at one cell, by the derivative there."""


class Recovery(TypedDict):
    """The field by readings. Errors are norms of the difference from the true one, by that of its scatter."""

    field: Array
    error: float
    constant: float
    """Error of the constant that fits the readings best: 1 if it is the mean of the field."""
    prior: float
    """Error of zeros, which the regularisation expects."""
    hindsight: float
    """The smallest error at any weight: a choice by the truth would reach it."""
    weight: float
    misfit: float
    """Root mean square of the readings' residuals, by the noise."""


class Solve(torch.autograd.Function):
    """The solutions T of Dᵀ diag(c) D T = q, shape (cells², right sides), by c and q."""

    @staticmethod
    def forward(ctx: Any, conductances: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Factorise once."""
        ctx.across = differences(round(len(right) ** 0.5))
        ctx.factors = splu((ctx.across.T @ diags(conductances.numpy()) @ ctx.across).tocsc())
        solution = torch.from_numpy(ctx.factors.solve(right.numpy()))
        ctx.save_for_backward(solution)
        return solution

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Apply the implicit function theorem: A λ = ∂J/∂T, A symmetric, ∂J/∂q = λ, ∂J/∂c = −Dλ · DT."""
        (solution,) = ctx.saved_tensors
        adjoint = ctx.factors.solve(slopes[0].numpy())
        slope = -((ctx.across @ adjoint) * (ctx.across @ solution.numpy())).sum(1)
        return torch.from_numpy(slope), torch.from_numpy(adjoint)


@diel.module(kind="simulation")
def conduction(
    cells: Annotated[int, Field(ge=8)] = 32,
    sensors: Annotated[int, Field(ge=2)] = 8,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Truth:
    """Draw a field, smooth noise of deviation 0.6 around a random mean, and solve on a grid twice as fine.

    cells: along a side of the grid of the returned field; a multiple of the sensors
    sensors: along a side; each reads the mean over its square

    Raise ValueError where the sensors do not divide the cells.
    """
    if cells % sensors:
        raise ValueError(f"sensors must divide the {cells} cells of a side; found {sensors}")
    rng = np.random.default_rng(seed)
    smooth = gaussian_filter(rng.standard_normal((4 * cells, 4 * cells)), 0.2 * cells)
    smooth = smooth[cells:-cells, cells:-cells]
    fine = 0.6 * (smooth - smooth.mean()) / smooth.std() + 0.3 * rng.standard_normal()
    readings = read(torch.from_numpy(fine), sensors).numpy()
    return {"field": fine.reshape(cells, 2, cells, 2).mean((1, 3)), "readings": readings}


@diel.module(kind="analysis")
def gradient(
    field: Array,
    sensors: Annotated[int, Field(ge=2)] = 8,
    places: Annotated[int, Field(ge=1)] = 100,
    step: Annotated[float, Field(gt=0)] = 5e-4,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> ConductionCheck:
    """Differentiate half the sum of squared readings in both ways, and print how far these differ.

    places: cells to draw; at each of them the field is moved up and down by the step
    """

    def loss(of: torch.Tensor) -> torch.Tensor:
        return 0.5 * (read(of, sensors) ** 2).sum()

    at = torch.tensor(field, requires_grad=True)
    (whole,) = torch.autograd.grad(loss(at), at)
    drawn = np.random.default_rng(seed).permutation(field.size)[:places]
    exact, central = whole.flatten()[drawn], torch.zeros(len(drawn), dtype=torch.float64)
    for number, place in enumerate(drawn):
        moved = np.zeros(field.size)
        moved[place] = step
        up, down = (torch.from_numpy(field + sign * moved.reshape(field.shape)) for sign in (1, -1))
        central[number] = (loss(up) - loss(down)) / (2 * step)
    off = (exact - central).abs()
    difference, largest = float(off.norm() / exact.norm()), float((off / exact.abs()).max())
    sys.stdout.write(
        f"gradient beside central differences at {len(drawn)} cells: {difference:.2g} of its norm apart, "
        f"at one cell at most {largest:.2g} of its derivative\n"
    )
    return {"difference": difference, "largest": largest}


@diel.module(kind="training")
def recover(
    field: Array, readings: Array, noise: Annotated[float, Field(gt=0)], seed: Annotated[int, Field(ge=0)] = 0
) -> Recovery:
    """Add noise to readings, and find the field closest to zero that fits them as well as the noise allows.

    field: the true one, for the errors; apart from them only its shape counts
    noise: its deviation, by the root mean square of all readings

    Minimises ‖(readings − T)/σ‖²/2 + weight ‖z‖²/2 over amplitudes z of cosines. The weight is the largest of
    a series that leaves ‖(readings − T)/σ‖² ≤ the number of readings: the discrepancy principle
    (V. A. Morozov, Sov. Math. Dokl. 7, 414 (1966)). Raise ValueError where none does.
    """
    deviation = noise * float(np.sqrt(np.mean(readings**2)))
    noisy = readings + deviation * np.random.default_rng((seed, 1)).standard_normal(readings.shape)
    modes, cells = cosines(len(field)), len(field)

    def error(amplitudes: Array) -> float:
        off = (modes[:, : len(amplitudes)] @ amplitudes).reshape(field.shape) - field
        return float(np.linalg.norm(off) / np.linalg.norm(field - field.mean()))

    constant, _ = fitted(noisy, deviation, modes[:, :1], np.zeros(1), 0.0)
    weight, amplitudes, errors, chosen = 100.0, np.zeros(modes.shape[1]), [], None
    while weight > (chosen[0] / 30 if chosen else 1e-6):
        amplitudes, rest = fitted(noisy, deviation, modes, amplitudes, weight)
        errors.append(error(amplitudes))
        misfit = float(np.sqrt(np.mean(rest**2)))
        if misfit <= 1 and chosen is None:
            chosen = weight, amplitudes, misfit
        weight /= FACTOR
    if chosen is None:
        hint = "take more cells, or expect more noise"
        raise ValueError(f"no field leaves less than {misfit:.3g} of the noise: {hint}")
    weight, amplitudes, misfit = chosen
    return {
        "field": (modes @ amplitudes).reshape(cells, cells),
        "error": error(amplitudes),
        "constant": error(constant),
        "prior": error(np.zeros(1)),
        "hindsight": min(errors),
        "weight": weight,
        "misfit": misfit,
    }


def fitted(
    readings: Array, deviation: float, modes: Array, amplitudes: Array, weight: float
) -> tuple[Array, Array]:
    """Return amplitudes by Gauss and Newton's method with halved steps, and the residuals of the readings."""

    def misfit(of: Array) -> tuple[Array, float]:
        expected = read(torch.from_numpy((modes @ of).reshape(side, side)), sensors).numpy()
        rest = (expected - readings).ravel() / deviation
        return rest, float(rest @ rest + weight * of @ of)

    side, sensors = round(len(modes) ** 0.5), round(readings.shape[1] ** 0.5)
    rest, loss = misfit(amplitudes)
    for _ in range(50):
        slopes = jacobian(modes, amplitudes, sensors) / deviation
        curvature = slopes.T @ slopes + weight * np.eye(len(amplitudes))
        step = np.linalg.solve(curvature, slopes.T @ rest + weight * amplitudes)
        for halved in 0.5 ** np.arange(12):
            tried, value = misfit(amplitudes - halved * step)
            if value < loss:
                break
        else:
            break
        gain, rest, loss, amplitudes = loss - value, tried, value, amplitudes - halved * step
        if gain < 1e-5 * loss:
            break
    return amplitudes, rest


def jacobian(modes: Array, amplitudes: Array, sensors: int) -> Array:
    """Differentiate readings by amplitudes, shape (readings, amplitudes), with each sensor's adjoint."""
    side = round(len(modes) ** 0.5)
    across, field = differences(side), modes @ amplitudes
    faces = conductances(torch.from_numpy(field.reshape(side, side))).numpy()
    slopes = faces[:, None] ** 2 / 2 * (abs(across) @ (modes / np.exp(field)[:, None]))  # of harmonic means
    factors = splu((across.T @ diags(faces) @ across).tocsc())
    flux = across @ factors.solve(heat(side).numpy())
    adjoint = across @ factors.solve(means(side, sensors).T.copy())
    return np.concatenate([-((adjoint * row[:, None]).T @ slopes) for row in flux.T])


def read(field: torch.Tensor, sensors: int) -> torch.Tensor:
    """Return the temperatures of sensors, shape (heaters, sensors²), by logarithms of conductivities."""
    cells = len(field)
    temperatures: torch.Tensor = Solve.apply(conductances(field), heat(cells))  # type: ignore[no-untyped-call]
    return (torch.from_numpy(means(cells, sensors)) @ temperatures).T


def conductances(field: torch.Tensor) -> torch.Tensor:
    """Return those of all faces, in the order of `differences`; half a cell at the rim has that of two."""
    faces: list[torch.Tensor] = []
    for k in (field.exp(), field.exp().T):
        face = torch.cat([2 * k[:1], 2 / (1 / k[1:] + 1 / k[:-1]), 2 * k[-1:]])
        faces.append(face.flatten() if not faces else face.T.flatten())
    return torch.cat(faces)


@cache
def differences(cells: int) -> Any:
    """Return D, sparse, shape (2 cells (cells + 1), cells²): down, then to the right; zero at the rim."""
    line = diags([np.ones(cells), -np.ones(cells)], [0, -1], shape=(cells + 1, cells))
    return csr_matrix(vstack([kron(line, eye(cells)), kron(eye(cells), line)]))


@cache
def means(cells: int, sensors: int) -> Array:
    """Return the matrix of means over each sensor's square, shape (sensors², cells²)."""
    side: Any = np.kron(np.eye(sensors), np.full(cells // sensors, sensors / cells))
    return np.asarray(np.kron(side, side))


@cache
def heat(cells: int) -> torch.Tensor:
    """Return the heat of heaters in each cell, shape (cells², heaters)."""
    x = (torch.arange(cells, dtype=torch.float64) + 0.5) / cells
    down, across = (torch.exp(-50 * (x[:, None] - at) ** 2) for at in HEATERS.T)
    return (down[:, None] * across[None]).reshape(cells * cells, -1) / cells**2


def cosines(cells: int) -> Array:
    """Return fields as columns, shape (cells², WAVES²), each of its expected size; first the constant.

    Cosines of w half waves fall as (1 + (π LENGTH w)²)⁻²: fields are expected to be smooth.
    """
    x, w = (np.arange(cells) + 0.5) / cells, np.arange(WAVES)
    size = (1 + (np.pi * LENGTH) ** 2 * (w[:, None] ** 2 + w**2)) ** -2.0
    waves = np.cos(np.pi * x[:, None] * w)
    return np.asarray(np.kron(waves, waves) * size.ravel())
