"""Onsager's energy, and comparisons with it."""

from __future__ import annotations

import math

import pytest

from modules.analysis.onsager import exact_energy, onsager


def test_the_exact_energy_has_its_known_limits() -> None:
    assert exact_energy(2 / math.log(1 + math.sqrt(2))) == pytest.approx(-math.sqrt(2), abs=1e-12)
    assert exact_energy(0.1) == pytest.approx(-2)
    # high temperature: u = -2 (t + 2 t³ + ...) for t = tanh(1/T)
    t = math.tanh(1 / 50)
    assert exact_energy(50) == pytest.approx(-2 * t - 4 * t**3, rel=1e-6)


def test_deviations_are_relative_to_the_exact_energy(capsys: pytest.CaptureFixture[str]) -> None:
    exact = [exact_energy(1.5), exact_energy(3.0)]
    result = onsager([1.5, 3.0], [exact[0] * 1.02, exact[1]], [exact[0], exact[1] * 0.9])
    assert result["exact"] == exact
    assert result["largest_deviation"] == pytest.approx(0.02)
    assert result["surrogate_deviation"] == pytest.approx(0.1)
    printed = capsys.readouterr().out
    assert "simulation: 2.00%" in printed
    assert "surrogate:  10.00%" in printed


def test_a_surrogate_may_be_absent(capsys: pytest.CaptureFixture[str]) -> None:
    assert onsager([1.5], [-1.9])["surrogate_deviation"] is None
    assert "largest deviation of the surrogate" not in capsys.readouterr().out


def test_lists_of_different_lengths_and_wrong_temperatures_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 values of 'energy'; found 1"):
        onsager([1.0, 2.0], [-1.0])
    with pytest.raises(ValueError, match="expected a positive temperature; found 0"):
        onsager([0.0], [-1.0])
