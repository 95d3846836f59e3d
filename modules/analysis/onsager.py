"""The exact energy of the infinite two-dimensional Ising model, against simulations and surrogates."""

from __future__ import annotations

import math
import sys
from typing import TypedDict

import diel


class Onsager(TypedDict):
    """Against the exact energy; temperatures in J/k_B, energies in J per site."""

    exact: list[float]
    largest_deviation: float
    """Largest relative deviation of the simulated energies."""
    surrogate_deviation: float | None
    """Largest relative deviation of the predicted energies; null without any."""


@diel.module(kind="analysis")
def onsager(temperature: list[float], energy: list[float], predicted: list[float] | None = None) -> Onsager:
    """Compares energies with Onsager's exact ones, and prints them side by side.

    temperature: in units of J/k_B
    energy: simulated energies per site, one a temperature
    predicted: energies per site from a surrogate, one a temperature

    Finite lattices deviate most at T_c = 2.269, by about 0.44/size of the energy. Raises ValueError
    where the lists differ in length or a temperature is not positive.
    """
    for name, values in (("energy", energy), ("predicted", predicted)):
        if values is not None and len(values) != len(temperature):
            raise ValueError(f"expected {len(temperature)} values of '{name}'; found {len(values)}")
    exact = [exact_energy(t) for t in temperature]
    rows = zip(temperature, exact, energy, predicted or [math.nan] * len(energy), strict=True)
    lines = ["temperature      exact  simulated  surrogate"]
    lines += [f"{t:11.4f} {e:10.5f} {s:10.5f} {p:10.5f}" for t, e, s, p in rows]
    result: Onsager = {
        "exact": exact,
        "largest_deviation": _deviation(energy, exact),
        "surrogate_deviation": None if predicted is None else _deviation(predicted, exact),
    }
    lines.append(f"largest deviation of the simulation: {result['largest_deviation']:.2%}")
    if result["surrogate_deviation"] is not None:
        lines.append(f"largest deviation of the surrogate:  {result['surrogate_deviation']:.2%}")
    sys.stdout.write("\n".join(lines) + "\n")
    return result


def exact_energy(temperature: float) -> float:
    """Energy per site of the infinite square lattice, in J, for a temperature in J/k_B.

    u = -coth(2β) [1 + (2/π) (2 tanh²(2β) - 1) K(k)], k = 2 sinh(2β) / cosh²(2β), with the complete
    elliptic integral K: L. Onsager, Phys. Rev. 65, 117 (1944), §5. Raises ValueError unless the
    temperature is positive.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"expected a positive temperature; found {temperature}")
    tanh = math.tanh(2 / temperature)
    # |2 tanh² - 1| is k' = √(1 - k²), and K(k) = π / (2 AGM(1, k')); at T_c, where K diverges, k' K
    # vanishes
    slope = 2 * tanh**2 - 1
    ratio = slope / _arithmetic_geometric_mean(1.0, abs(slope)) if slope else 0.0
    return -(1 + ratio) / tanh


def _arithmetic_geometric_mean(a: float, b: float) -> float:
    while abs(a - b) > 1e-15 * a:
        a, b = (a + b) / 2, math.sqrt(a * b)
    return a


def _deviation(values: list[float], exact: list[float]) -> float:
    return max(abs(value / right - 1) for value, right in zip(values, exact, strict=True))
