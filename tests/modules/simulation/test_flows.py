"""Flows obey their equations, and noise is as large as it is said to be."""

from __future__ import annotations

import numpy as np
import pytest

from modules.simulation.flows import burgers, cole_hopf, noisy, stepped, velocity, vortices, waves


def test_burgers_flow_is_that_of_the_literature() -> None:
    """Basdevant et al. 1986, table 1: a slope of −152.00516 at x = 0, at πt = 1.6037, for ν = 0.01/π."""
    viscosity, step = 0.01 / np.pi, 1e-5
    (near,) = cole_hopf(np.array([step]), np.array([1.6037 / np.pi]), viscosity)
    assert near / step == pytest.approx(-152.00516, rel=1e-3)
    read = burgers(points=500, viscosity=viscosity, seed=0)
    assert (np.abs(read["values"][:, 0]) <= 1).all()
    assert (np.sign(read["values"][:, 0]) == -np.sign(read["points"][:, 0])).all()  # all flows to the middle


def test_vortices_of_taylor_and_green_decay_as_they_must() -> None:
    """ω = 2 cos x cos y keeps its shape: exp(−2νt)."""
    x, y = np.meshgrid(*[np.arange(16) * 2 * np.pi / 16] * 2, indexing="ij")
    now = np.fft.fft2(2 * np.cos(x) * np.cos(y))
    for _ in range(10):
        now = stepped(now, 0.1)
    assert np.fft.ifft2(now).real == pytest.approx(2 * np.exp(-2 * 0.1 * 0.1) * np.cos(x) * np.cos(y))
    u, v = np.fft.ifft2(np.stack(velocity(now))).real
    assert u / np.exp(-0.02) == pytest.approx(-np.cos(x) * np.sin(y))
    assert v / np.exp(-0.02) == pytest.approx(np.sin(x) * np.cos(y))


def test_vortices_without_viscosity_keep_energy_and_enstrophy() -> None:
    kx, ky = waves(32)
    low = (kx**2 + ky**2 > 0) & (kx**2 + ky**2 <= 4)
    now = np.fft.fft2(np.random.default_rng(0).standard_normal((32, 32))) * low

    def integrals(of: np.ndarray[tuple[int, ...], np.dtype[np.complex128]]) -> list[float]:
        return [float((np.abs(np.stack(velocity(of))) ** 2).sum()), float((np.abs(of) ** 2).sum())]

    first = integrals(now)
    for _ in range(20):
        now = stepped(now, 0.0)
    assert integrals(now) == pytest.approx(first, rel=1e-6)


def test_vortices_are_read_within_a_quarter_of_the_box() -> None:
    read = vortices(points=50, grid=16, seed=2)
    assert read["points"].shape == (50, 3)
    assert read["values"].shape == (50, 2)
    assert (read["points"] >= 0).all()
    assert (read["points"] <= [np.pi, np.pi, 1]).all()
    fine = vortices(points=50, grid=16, noise=0.01, seed=2)
    assert (read["points"] == fine["points"]).all()
    assert 0 < np.abs(fine["values"] - read["values"]).max() < 0.1


def test_noise_is_a_share_of_each_components_deviation() -> None:
    values = np.random.default_rng(0).normal(0, (1.0, 10.0), (20_000, 2))
    off = noisy(values, 0.01, np.random.default_rng(1)) - values
    assert off.std(0) == pytest.approx([0.01, 0.1], rel=0.03)
