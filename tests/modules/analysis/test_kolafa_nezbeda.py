"""The equation of state of a Lennard-Jones fluid."""

from __future__ import annotations

import math

import pytest
from scipy.integrate import quad

from modules.analysis.kolafa_nezbeda import factor, kolafa_nezbeda


def second_virial(temperature: float) -> float:
    """From the potential itself: B = 2π ∫ (1 - exp(-u/T)) r² dr."""

    def integrand(r: float) -> float:
        return -math.expm1(-4 * (r**-12 - r**-6) / temperature) * r**2

    return float(2 * math.pi * (quad(integrand, 0.1, 3)[0] + quad(integrand, 3, math.inf)[0]))


def test_a_thin_gas_has_the_second_virial_coefficient_of_the_potential() -> None:
    for temperature in (0.9, 1.3, 2.0, 3.0, 5.0):
        assert (factor(temperature, 1e-6) - 1) / 1e-6 == pytest.approx(second_virial(temperature), abs=5e-3)


def test_pressures_are_those_of_the_program_that_the_authors_gave_away() -> None:
    # it has its coefficients in single precision
    pressures = kolafa_nezbeda([1.3, 1.3], [0.2, 0.4])["pressure"]
    assert pressures == pytest.approx([0.12147937, 0.11253335], abs=2e-6)


def test_a_vapour_has_the_pressure_of_the_benchmark_of_nist() -> None:
    # NIST Standard Reference Simulation Website, Lennard-Jones fluid with tail corrections, T* = 0.85
    pressures = kolafa_nezbeda([0.85] * 3, [0.001, 0.003, 0.005])["pressure"]
    assert pressures == pytest.approx([8.4402e-4, 2.4965e-3, 4.1003e-3], rel=1e-3)


def test_what_is_no_fluid_is_refused() -> None:
    with pytest.raises(ValueError, match=r"temperature from 0.68 to 20 .* found 0.5 and 0.1"):
        kolafa_nezbeda([0.5], [0.1])
    with pytest.raises(ValueError, match="a density for each of 2 temperatures; found 1"):
        kolafa_nezbeda([1.0, 2.0], [0.1])
