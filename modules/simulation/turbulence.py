"""Turbulence in two dimensions, stirred by a standing wave and slowed by drag, in a box of length 2π.

    ∂ω/∂t + u ∂ω/∂x + v ∂ω/∂y = ν ∇²ω − ω/10 − 4 cos 4y,    u = ∂ψ/∂y,  v = −∂ψ/∂x,  ∇²ψ = −ω

Kolmogorov's flow, as D. Kochkov et al., Proc. Natl. Acad. Sci. 118, e2101784118 (2021), stir and slow
it. Derivatives are taken of Fourier's series, products without the highest third of its waves (S. A.
Orszag, J. Atmos. Sci. 28, 1074 (1971)); steps are Runge and Kutta's of fourth order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import fft

import diel

if TYPE_CHECKING:
    from pydantic import Field

Waves = NDArray[np.complex128]
"""Coefficients of a field, shape (size, size // 2 + 1)."""

SPIN_UP = 15.0
"""Until a state no longer knows how it began."""


class Turbulence(TypedDict):
    """States of one flow."""

    fields: Path
    """.npy, float32, shape (count, size, size): the vorticity ω, y first."""


@diel.module(kind="simulation")
def turbulence(
    context: diel.Context,
    size: Annotated[int, Field(ge=16, multiple_of=4)] = 64,
    viscosity: Annotated[float, Field(gt=0)] = 0.01,
    count: Annotated[int, Field(ge=1)] = 20,
    every: Annotated[float, Field(gt=0)] = 1.0,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Turbulence:
    """Simulate a flow, and keep states of it.

    size: points along a side
    viscosity: ν
    count: states
    every: time between two of them
    seed: of the state that it begins with, waves of about 4 to a side

    Raise ValueError where a step of 1.28/size was too long for the flow.
    """
    step = 1.28 / size
    change = rate(size, viscosity)
    rng = np.random.default_rng(seed)
    y, x = waves(size)
    state = fft.rfft2(rng.standard_normal((size, size))) * np.exp(-(((np.hypot(y, x) - 4) / 1.5) ** 2))
    state *= 3 / fft.irfft2(state).std()
    state = advanced(state, change, step, round(SPIN_UP / step))
    fields = np.empty((count, size, size), np.float32)
    for place in range(count):
        state = advanced(state, change, step, round(every / step))
        fields[place] = fft.irfft2(state)
    if not np.isfinite(fields).all():
        raise ValueError(f"the flow left all bounds at a step of {step:.3g}; take a larger size or viscosity")
    path = context.task_dir / "fields.npy"
    np.save(path, fields)
    return {"fields": path}


def waves(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return wave numbers along y, shape (size, 1), and along x, shape (1, size // 2 + 1)."""
    along_x = np.arange(size // 2 + 1, dtype=float)
    return np.rint(np.fft.fftfreq(size, 1 / size)).astype(float)[:, None], along_x[None]


def rate(size: int, viscosity: float, stirring: float = 4.0, drag: float = 0.1) -> Callable[[Waves], Waves]:
    """Return the function that gives ∂ω/∂t of a state."""
    y, x = waves(size)
    square = y**2 + x**2
    inverse = 1 / np.where(square, square, 1)
    mask = (np.abs(y) < size / 3) & (x < size / 3)
    slowed = -viscosity * square - drag
    wave = np.cos(4 * np.arange(size) * 2 * np.pi / size)[:, None]
    stirred = fft.rfft2(np.broadcast_to(-stirring * wave, (size, size)))

    def change(state: Waves) -> Waves:
        series = np.stack([1j * y * inverse * state, -1j * x * inverse * state, state])
        flow = fft.irfft2(series, s=(size, size))
        carried = fft.rfft2(flow[:2] * flow[2])
        return np.asarray(slowed * state + stirred - mask * 1j * (x * carried[0] + y * carried[1]))

    return change


def advanced(state: Waves, change: Callable[[Waves], Waves], step: float, steps: int) -> Waves:
    """Return the state after some steps."""
    for _ in range(steps):
        first = change(state)
        second = change(state + step / 2 * first)
        third = change(state + step / 2 * second)
        state = state + step / 6 * (first + 2 * second + 2 * third + change(state + step * third))
    return state
