"""The exact energy and heat capacity of a finite two-dimensional Ising lattice."""

from __future__ import annotations

import math
from typing import Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import diel

Floats = NDArray[np.float64]
COLD = 100.0
"""J/k_B by the temperature; above it no digit tells that a spin is turned."""


class Kaufman(TypedDict):
    """Exact values, one a temperature."""

    energy: list[float]
    """Per site, in J."""
    heat_capacity: list[float]
    """Per site, in k_B."""


@diel.module(kind="analysis")
def kaufman(
    temperature: Annotated[list[float], Field(min_length=1)], size: Annotated[int, Field(ge=2, le=1024)]
) -> Kaufman:
    """Say the exact energies and heat capacities of an Ising lattice of this size.

    temperature: in units of J/k_B
    size: sites along a side of the periodic lattice

    B. Kaufman, Phys. Rev. 76, 1232 (1949). Raise ValueError where a temperature is not positive.
    """
    energy, capacity = zip(*(exact(value, size) for value in temperature), strict=True)
    return {"energy": list(energy), "heat_capacity": list(capacity)}


def exact(temperature: float, size: int) -> tuple[float, float]:
    """Return energy in J and heat capacity in k_B, each per site, at a temperature in J/k_B.

    From the partition function of B. Kaufman, Phys. Rev. 76, 1232 (1949), differentiated twice as in A. E.
    Ferdinand and M. E. Fisher, Phys. Rev. 185, 832 (1969), section II. With K = J/(k_B T), n = m = size,

        2 Z = (2 sinh 2K)^(mn/2) (Π 2 cosh ½mγ_2r+1 + Π 2 sinh ½mγ_2r+1 + Π 2 cosh ½mγ_2r + Π 2 sinh ½mγ_2r),
        cosh γ_l = coth 2K cosh 2K - cos(lπ/n),  γ_0 = 2K + ln tanh K,  r = 0 … n - 1,

    u = -∂lnZ/∂K/mn and c = K² ∂²lnZ/∂K²/mn, with the derivatives of each product by hand. Raise ValueError
    unless the temperature is positive.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"expected a positive temperature; found {temperature}")
    k, n = 1 / temperature, size
    if k > COLD:
        return -2.0, 0.0
    sinh, cosh = math.sinh(2 * k), math.cosh(2 * k)
    # γ_1 … γ_2n-1 and their first and second derivatives by K
    cos = np.cos(math.pi * np.arange(1, 2 * n) / n)
    above = cosh**2 / sinh - cos
    root = np.sqrt(above**2 - 1)
    first = 2 * cosh * (1 - 1 / sinh**2) / root
    second = (4 * (sinh - 1 / sinh + 2 * cosh**2 / sinh**3) - first**2 * above) / root
    gamma = np.stack([np.arccosh(above), first, second])
    # γ_0 may be negative, or 0 at T_c, so that its factors stand apart; each is by e^|x|
    x, dx, ddx = n / 2 * (2 * k + math.log(math.tanh(k))), n * (1 + 1 / sinh), -2 * n * cosh / sinh**2
    c, s = 1 + math.exp(-2 * abs(x)), math.copysign(1 - math.exp(-2 * abs(x)), x)
    odd, even = gamma[:, ::2] * n / 2, gamma[:, 1::2] * n / 2
    products = [
        (*_logarithm(odd, 1), 1.0, 0.0, 0.0),
        (*_logarithm(odd, -1), 1.0, 0.0, 0.0),
        (*_logarithm(even, 1, abs(x)), c, s * dx, c * dx**2 + s * ddx),
        (*_logarithm(even, -1, abs(x)), s, c * dx, s * dx**2 + c * ddx),
    ]
    most = max(a for a, *_ in products)
    z = np.zeros(3)
    for a, da, dda, f, df, ddf in products:
        z += math.exp(a - most) * np.array([f, da * f + df, (dda + da**2) * f + 2 * da * df + ddf])
    slope = n * n * cosh / sinh + z[1] / z[0]
    curvature = -2 * n * n / sinh**2 + z[2] / z[0] - (z[1] / z[0]) ** 2
    return float(-slope / n**2), float(k**2 * curvature / n**2)


def _logarithm(x: Floats, sign: int, offset: float = 0.0) -> tuple[float, float, float]:
    """Return the logarithm of Π 2 cosh x (sign +1) or Π 2 sinh x (-1), with an offset, and two derivatives.

    x: shape (3, factors), the last two rows its derivatives
    """
    small = sign * np.exp(-2 * x[0])
    slope = (1 - small) / (1 + small)  # tanh or coth
    value = float((x[0] + np.log1p(small)).sum()) + offset
    return value, float((slope * x[1]).sum()), float((slope * x[2] + (1 - slope**2) * x[1] ** 2).sum())
