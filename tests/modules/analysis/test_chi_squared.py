"""Simulations and a surrogate against what is known."""

from __future__ import annotations

import math

import pytest

from modules.analysis.chi_squared import chi_squared


def test_deviations_count_by_their_errors(capsys: pytest.CaptureFixture[str]) -> None:
    result = chi_squared(
        {"t": [1.5, 3.0]}, [-2.0, 1.0], [-2.002, 0.996], [0.001, 0.002], [-2.0, 0.9], "energy"
    )
    assert result["chi2"] == pytest.approx(8)
    assert result["degrees"] == 2
    assert result["probability"] == pytest.approx(math.exp(-4))  # of two degrees of freedom
    assert result["largest_deviation"] == pytest.approx(0.004)
    assert result["surrogate_deviation"] == pytest.approx(0.1)
    printed = capsys.readouterr().out
    assert "energy: χ² 8.0 for 2 degrees of freedom (probability 0.018)" in printed
    assert "surrogate:  10.00%" in printed


def test_a_surrogate_may_be_absent(capsys: pytest.CaptureFixture[str]) -> None:
    assert chi_squared({}, [1.0], [1.1], [0.1])["surrogate_deviation"] is None
    assert "surrogate" not in capsys.readouterr().out


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 values of 'simulated'; found 1"):
        chi_squared({}, [1.0, 2.0], [1.0], [0.1, 0.1])
    with pytest.raises(ValueError, match="standard errors above 0"):
        chi_squared({}, [1.0], [1.0], [0.0])
    with pytest.raises(ValueError, match="a known value is 0"):
        chi_squared({}, [0.0], [1.0], [0.1])
