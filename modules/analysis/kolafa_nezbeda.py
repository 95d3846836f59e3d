"""The equation of state of a Lennard-Jones fluid that was fitted to simulations of many groups.

J. Kolafa and I. Nezbeda, Fluid Phase Equilib. 100, 1 (1994). Reduced units: lengths in σ, energies in ε,
temperatures in ε/k_B. It is for the whole potential, without a cut-off, and for the fluid.
"""

from __future__ import annotations

import math
from typing import TypedDict

import diel

DIAMETER = {-2: 0.011117524, -1: -0.076383859, 0: 1.080142248, 1: 0.000693129}
"""Of hard spheres, by the power of √T. There is a logarithm too."""
DIAMETER_LOGARITHM = -0.063920968
VIRIAL = {
    -7: -0.58544978,
    -6: 0.43102052,
    -5: 0.87361369,
    -4: -4.13749995,
    -3: 2.90616279,
    -2: -7.02181962,
    0: 0.02459877,
}
"""The second virial coefficient less that of hard spheres, by the power of √T."""
DAMPING = 1.92907278
REST = {
    0: (2.01546797, -28.17881636, 28.28313847, -10.42402873, 0.0),
    -1: (-19.58371655, 75.62340289, -120.70586598, 93.92740328, -27.37737354),
    -2: (29.34470520, -112.35356937, 170.64908980, -123.06669187, 34.42288969),
    -4: (-13.37031968, 65.38059570, -115.09233113, 88.91973082, -25.62099890),
}
"""Table 3: by the power of √T, then of density from 2 to 6."""


class KolafaNezbeda(TypedDict):
    """What a Lennard-Jones fluid has at each state."""

    pressure: list[float]
    """In ε/σ³."""
    compressibility_factor: list[float]
    """Pressure by density and temperature: 1 for an ideal gas."""


@diel.module(kind="analysis")
def kolafa_nezbeda(temperature: list[float], density: list[float]) -> KolafaNezbeda:
    """Say the pressures of a Lennard-Jones fluid by Kolafa and Nezbeda's equation of state.

    temperature: in ε/k_B
    density: atoms in a volume of σ³, one a temperature

    Where gas and liquid part it gives the pressure of one phase, which is not stable. Raise ValueError where
    the lists differ in length, and outside of the fluid.
    """
    if len(temperature) != len(density):
        many = len(temperature)
        raise ValueError(f"expected a density for each of {many} temperatures; found {len(density)}")
    factors = [factor(t, rho) for t, rho in zip(temperature, density, strict=True)]
    pressures = [z * t * rho for z, t, rho in zip(factors, temperature, density, strict=True)]
    return {"pressure": pressures, "compressibility_factor": factors}


def factor(temperature: float, density: float) -> float:
    """Return the compressibility factor, eq. 31.

    Hard spheres, a damped second virial coefficient, and a polynomial. Raise ValueError outside of the fluid.
    """
    if not (0.68 <= temperature <= 20 and 0 < density <= 1.25):
        raise ValueError(
            "expected a temperature from 0.68 to 20 and a density above 0, up to 1.25; "
            f"found {temperature} and {density}"
        )
    root = math.sqrt(temperature)
    diameter = _sum(DIAMETER, root) + DIAMETER_LOGARITHM * math.log(temperature)
    eta = math.pi / 6 * density * diameter**3
    hard = (1 + eta + eta**2 - 2 / 3 * eta**3 * (1 + eta)) / (1 - eta) ** 3
    square = DAMPING * density**2
    virial = density * (1 - 2 * square) * math.exp(-square) * _sum(VIRIAL, root)
    rest = sum(
        power * coefficient * root ** (of_root - 2) * density**power
        for of_root, row in REST.items()
        for power, coefficient in enumerate(row, start=2)
    )
    return hard + virial + rest


def _sum(coefficients: dict[int, float], root: float) -> float:
    return sum(coefficient * root**power for power, coefficient in coefficients.items())
