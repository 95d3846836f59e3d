"""Exact energies and heat capacities of finite lattices."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from modules.analysis.kaufman import exact, kaufman

CRITICAL = 2 / math.log(1 + math.sqrt(2))


def counted(temperature: float, size: int) -> tuple[float, float]:
    """Energy and heat capacity per site from all states of a periodic lattice."""
    spins = np.array(list(product([-1, 1], repeat=size**2))).reshape(-1, size, size)
    energy = -(spins * (np.roll(spins, 1, 1) + np.roll(spins, 1, 2))).sum(axis=(1, 2))
    weight = np.exp((energy.min() - energy) / temperature)
    mean = np.average(energy, weights=weight)
    return mean / size**2, np.average((energy - mean) ** 2, weights=weight) / temperature**2 / size**2


@pytest.mark.parametrize("size", [3, 4])
def test_the_exact_values_are_those_of_all_states_counted(size: int) -> None:
    for temperature in (0.7, 2.0, CRITICAL, 3.5, 20.0):
        assert exact(temperature, size) == pytest.approx(counted(temperature, size), rel=1e-9)


def test_large_lattices_have_the_energies_of_the_infinite_one() -> None:
    # L. Onsager, Phys. Rev. 65, 117 (1944): √2 at the critical point, where it is approached slowest
    energies = [exact(CRITICAL, size)[0] + math.sqrt(2) for size in (128, 256)]
    assert energies[0] == pytest.approx(2 * energies[1], rel=1e-4)
    assert exact(2.0, 512)[0] == pytest.approx(-1.745564575312553, abs=1e-12)
    # a logarithm: A. E. Ferdinand and M. E. Fisher, Phys. Rev. 185, 832 (1969), (8/π)(K_c)² ln size
    rise = exact(CRITICAL, 512)[1] - exact(CRITICAL, 256)[1]
    assert rise == pytest.approx(8 / math.pi / CRITICAL**2 * math.log(2), rel=1e-3)
    assert exact(0.005, 32) == (-2.0, 0.0)


def test_a_list_of_temperatures_has_lists_of_values() -> None:
    result = kaufman([1.5, 3.0], 16)
    assert list(zip(result["energy"], result["heat_capacity"], strict=True)) == [
        exact(1.5, 16),
        exact(3.0, 16),
    ]
    with pytest.raises(ValueError, match="expected a positive temperature; found 0"):
        kaufman([0.0], 16)
