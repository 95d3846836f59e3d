"""Flows of known equations, read at scattered points, from which a network finds the equations' parameters.

simulation.flows:burgers    u_t + u u_x = ν u_xx, exact
simulation.flows:vortices   the Navier–Stokes equations in two dimensions, by a spectral method
"""

from __future__ import annotations

from typing import Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import diel

Array = NDArray[np.float64]

STEP = 0.01
"""Of time, in `vortices`."""


class FlowRead(TypedDict):
    """A flow at points that are drawn evenly."""

    points: Array
    """Shape (points, dimensions): x or x, y, and t at last."""
    values: Array
    """Shape (points, components): the velocity."""


@diel.module(kind="simulation")
def burgers(
    points: Annotated[int, Field(ge=1)] = 1000,
    viscosity: Annotated[float, Field(gt=0)] = 0.1 / np.pi,
    noise: Annotated[float, Field(ge=0)] = 0.0,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> FlowRead:
    """Solve with u(x, 0) = −sin πx for x in [−1, 1] and t in [0, 1], by Cole and Hopf's transformation.

    noise: its deviation, by that of the velocity
    """
    rng = np.random.default_rng(seed)
    x, t = rng.uniform((-1, 0), (1, 1), (points, 2)).T
    exact = cole_hopf(x, t, viscosity)
    return {"points": np.stack([x, t], 1), "values": noisy(exact[:, None], noise, rng)}


@diel.module(kind="simulation")
def vortices(
    points: Annotated[int, Field(ge=1)] = 1000,
    viscosity: Annotated[float, Field(gt=0)] = 0.02,
    noise: Annotated[float, Field(ge=0)] = 0.0,
    grid: Annotated[int, Field(ge=8)] = 48,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> FlowRead:
    """Let random vortices decay in a periodic box of side 2π; read in its quarter [0, π]², t in [0, 1].

    noise: its deviation, by that of the velocity
    grid: points along a side

    ω_t + u · ∇ω = ν Δω by Fourier's series, products without aliases by the rule of two thirds (S. A. Orszag,
    J. Atmos. Sci. 28, 1074 (1971)), time by Runge and Kutta's method of fourth order. The first vorticity has
    waves up to 2, and velocities of root mean square 1.
    """
    rng = np.random.default_rng(seed)
    kx, ky = waves(grid)
    square = kx**2 + ky**2
    first = np.fft.fft2(rng.standard_normal((grid, grid))) * ((square > 0) & (square <= 4))
    speeds = np.fft.ifft2(np.stack(velocity(first))).real
    course = [first / np.sqrt((speeds**2).sum(0).mean())]
    for _ in range(round(1 / STEP)):
        course.append(stepped(course[-1], viscosity))
    place, when = rng.uniform(0, np.pi, (points, 2)), rng.integers(len(course), size=points)
    values = np.empty((points, 2))
    few = np.abs(np.fft.fftfreq(grid, 1 / grid)) <= grid // 3
    numbers = np.fft.fftfreq(grid, 1 / grid)[few]
    for number, ((x, y), step) in enumerate(zip(place, when, strict=True)):
        both = np.stack(velocity(course[step]))[:, few][:, :, few]
        values[number] = (np.exp(1j * numbers * x) @ both @ np.exp(1j * numbers * y)).real / grid**2
    return {"points": np.column_stack([place, when * STEP]), "values": noisy(values, noise, rng)}


def cole_hopf(x: Array, t: Array, viscosity: float) -> Array:
    """Return u at places and times, with the integrals of C. Basdevant et al., Comput. Fluids 14, 23 (1986).

    u = −∫ sin π(x − η) f(x − η) exp(−η²/4νt) dη / ∫ f(x − η) exp(−η²/4νt) dη, f(y) = exp(−cos(πy)/2πν), by
    Gauss and Hermite's rule.
    """
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    y = np.pi * (x[:, None] - np.sqrt(4 * viscosity * t)[:, None] * nodes)
    power = -np.cos(y) / (2 * np.pi * viscosity)
    inside = weights * np.exp(power - power.max(1, keepdims=True))
    return np.asarray(-(np.sin(y) * inside).sum(1) / inside.sum(1))


def waves(grid: int) -> tuple[Array, Array]:
    """Return wave numbers along x, the first index of a field, and y."""
    numbers = np.fft.fftfreq(grid, 1 / grid)
    kx, ky = np.meshgrid(numbers, numbers, indexing="ij")
    return kx, ky


def velocity(vorticity: NDArray[np.complex128]) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return u = ∂ψ/∂y and v = −∂ψ/∂x, with ω = −Δψ, all as coefficients of Fourier's series."""
    kx, ky = waves(len(vorticity))
    stream = vorticity / np.maximum(kx**2 + ky**2, 1)
    return 1j * ky * stream, -1j * kx * stream


def stepped(vorticity: NDArray[np.complex128], viscosity: float) -> NDArray[np.complex128]:
    """Return the vorticity after a step of time."""
    kx, ky = waves(len(vorticity))
    mask = (np.abs(kx) <= len(kx) // 3) & (np.abs(ky) <= len(kx) // 3)

    def change(of: NDArray[np.complex128]) -> NDArray[np.complex128]:
        u, v, across, along = np.fft.ifft2(np.stack([*velocity(of), 1j * kx * of, 1j * ky * of])).real
        carried = -np.fft.fft2(u * across + v * along) * mask
        return np.asarray(carried - viscosity * (kx**2 + ky**2) * of)

    k1 = change(vorticity)
    k2 = change(vorticity + STEP / 2 * k1)
    k3 = change(vorticity + STEP / 2 * k2)
    return vorticity + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + change(vorticity + STEP * k3))


def noisy(values: Array, noise: float, rng: np.random.Generator) -> Array:
    """Add noise whose deviation is that share of the values' own, for each component."""
    return np.asarray(values + noise * values.std(0) * rng.standard_normal(values.shape))
