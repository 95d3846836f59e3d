"""The report on a surrogate's errors."""

from __future__ import annotations

import pytest

from modules.analysis.surrogate_report import surrogate_report


def test_errors_are_measured_and_printed_state_by_state(capsys: pytest.CaptureFixture[str]) -> None:
    result = surrogate_report({"density": [0.1, 0.2]}, [1.0, 3.0], [1.5, 2.9], [0.01, 0.02], "pressure")
    assert result["states"] == 2
    assert result["mean_absolute_error"] == pytest.approx(0.3)
    assert result["root_mean_square_error"] == pytest.approx((0.26 / 2) ** 0.5)
    assert result["largest_error"] == pytest.approx(0.5)
    assert result["relative_error"] == pytest.approx(0.15)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["density", "simulated", "predicted", "error"]
    assert printed[2].split() == ["0.2000", "3.0000", "2.9000", "0.0200"]
    assert "pressure of 2 states" in printed[3]
    assert "mean absolute error 0.3000 (15.00%), largest 0.5000" in printed[3]


def test_simulated_values_of_zero_give_no_relative_error() -> None:
    assert surrogate_report({}, [0.0, 0.0], [0.0, 0.1])["relative_error"] == 0


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="'predicted' has 1, 'simulated' has 2"):
        surrogate_report({}, [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="at least one"):
        surrogate_report({}, [], [])
