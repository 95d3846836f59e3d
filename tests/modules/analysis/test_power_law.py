"""A power law is found, and held against a point that it was not fitted to."""

from __future__ import annotations

import pytest

from modules.analysis.power_law import power_law


def test_the_largest_point_is_predicted_from_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    x = [1.0, 2.0, 4.0, 8.0] * 2
    y = [8.0, 4.0, 2.0, 9.0, 2.0, 1.0, 0.5, 9.0]  # two series that fall as 1 / x, but for the last point
    result = power_law(x, y, [0] * 4 + [1] * 4)
    assert result["exponent"] == pytest.approx(-1)
    assert result["exponent_scatter"] == pytest.approx(0, abs=1e-9)
    assert result["predicted"] == pytest.approx(0.5)  # the geometric mean of 1 and 1/4
    assert result["measured"] == pytest.approx(9)
    assert "predicted 0.5, measured 9" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [([1.0, 2.0, 3.0], [1.0, 0.0, 1.0], "above 0"), ([1.0, 2.0], [1.0, 1.0], "three values")],
)
def test_what_no_power_law_can_be_fitted_to_is_told(x: list[float], y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        power_law(x, y, [0] * len(x))
