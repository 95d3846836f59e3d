"""The pendulum swings as it is known to."""

from __future__ import annotations

import math

import pytest

from modules.simulation.swing import swing


def quarter(amplitude: float) -> float:
    """A quarter of the period, K(sin(amplitude / 2)), by the arithmetic-geometric mean."""
    a, b = 1.0, math.cos(amplitude / 2)
    for _ in range(30):
        a, b = (a + b) / 2, math.sqrt(a * b)
    return math.pi / (2 * a)


@pytest.mark.parametrize("amplitude", [0.01, 1.0, 2.5, 3.1])
def test_it_hangs_down_after_a_quarter_of_its_period(amplitude: float) -> None:
    there = swing(amplitude, quarter(amplitude))
    assert there["angle"] == pytest.approx(0, abs=1e-4)
    assert there["speed"] == pytest.approx(-2 * math.sin(amplitude / 2), abs=1e-4)


def test_it_keeps_its_energy() -> None:
    assert abs(swing(2.0, 50.0, steps=5000)["energy_drift"]) < 1e-4


def test_it_begins_at_rest_where_it_is_let_go() -> None:
    assert swing(1.2, 0.0) == {"angle": 1.2, "speed": 0.0, "energy_drift": 0.0}
