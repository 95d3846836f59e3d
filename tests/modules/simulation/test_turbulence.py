"""A flow in two dimensions: a vortex decays as Taylor found, and nothing is lost where nothing is lossy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import fft

import diel
from modules.simulation.turbulence import advanced, rate, turbulence, waves

POINTS = np.arange(32) * 2 * np.pi / 32


def test_a_taylor_green_vortex_decays_by_viscosity_alone() -> None:
    vortex = np.cos(2 * POINTS)[:, None] * np.cos(2 * POINTS)
    later = advanced(fft.rfft2(vortex), rate(32, viscosity=0.05, stirring=0, drag=0), 0.05, 40)
    assert fft.irfft2(later) == pytest.approx(np.exp(-0.05 * 8 * 2) * vortex, abs=1e-6)


def test_energy_and_enstrophy_are_kept_without_viscosity() -> None:
    y, x = waves(32)
    state = fft.rfft2(np.random.default_rng(0).standard_normal((32, 32))) * (np.hypot(y, x) < 6)
    square = np.where(y**2 + x**2 > 0, y**2 + x**2, np.inf)

    def integrals(state: np.ndarray) -> list[float]:
        fields = fft.irfft2(state), fft.irfft2(state / np.sqrt(square))
        return [float((field**2).mean()) for field in fields]

    later = advanced(state, rate(32, viscosity=0, stirring=0, drag=0), 0.01, 100)
    assert np.abs(fft.irfft2(later) - fft.irfft2(state)).max() > 0.1
    assert integrals(later) == pytest.approx(integrals(state), rel=1e-6)


def test_states_of_a_flow_differ_and_one_that_leaves_all_bounds_is_told(context: diel.Context) -> None:
    fields = np.load(turbulence(context, size=16, viscosity=0.05, count=2, seed=3)["fields"])
    assert fields.shape == (2, 16, 16)
    assert np.abs(fields[0] - fields[1]).max() > 0.1
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="left all bounds at a step of 0.08"):
        turbulence(context, size=16, viscosity=10.0, count=1)
