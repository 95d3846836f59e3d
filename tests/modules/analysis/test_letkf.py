"""An ensemble Kalman filter: exact where the Kalman filter is, and as good as published where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from modules.analysis.letkf import letkf, taper
from modules.simulation.lorenz96 import forecast, lorenz96


def test_without_localization_it_is_kalmans_filter_with_the_covariance_of_the_ensemble() -> None:
    rng = np.random.default_rng(0)
    variables, members, noise = 6, 100, 0.5
    root = rng.normal(size=(variables, variables)) / 2
    ensemble = rng.normal(size=(members, variables)) @ root
    truth, readings = np.zeros((1, variables)), rng.normal(size=(1, variables))
    result = letkf([ensemble[None]], readings, truth, 0, inflation=1.0, radius=1e9, noise=noise)
    covariance = np.cov(ensemble.T)
    gain = covariance @ np.linalg.inv(covariance + noise**2 * np.eye(variables))
    mean = ensemble.mean(axis=0)
    assert result["ensemble"].mean(axis=0) == pytest.approx(mean + gain @ (readings[0] - mean))
    assert np.cov(result["ensemble"].T) == pytest.approx((np.eye(variables) - gain) @ covariance)
    assert result["spread"] < np.sqrt(np.trace(covariance) / variables)


def test_sensors_far_away_have_no_weight() -> None:
    weights = taper(40, 2, 4.0)
    assert weights.shape == (40, 20)
    assert weights[6, 3] == 1.0
    assert weights[0, 2] == pytest.approx(5 / 24)  # at the radius itself
    assert weights[0, 4] == 0.0
    assert weights[0, 19] == weights[2, 0]  # around the circle


def test_an_ensemble_of_forty_is_as_near_as_was_published() -> None:
    """Sakov and Oke 2008, table 1: 0.18 to 0.22 with forty members, sensors at all variables, at each step."""
    windows, steps = 24, 4
    truth = lorenz96(steps=windows * steps, members=40, seed=3)
    ensemble, errors = truth["ensemble"], []
    for window in range(windows):
        course = forecast(ensemble, steps)["course"]
        analysis = letkf([course], truth["observations"], truth["truth"], window, inflation=1.06, radius=8)
        ensemble = analysis["ensemble"]
        errors.append(analysis["error"])
    assert 0.14 < np.mean(errors[12:]) < 0.26
    with pytest.raises(ValueError, match="window 24 of 4 steps lies beyond the 96 observed ones"):
        letkf([course], truth["observations"], truth["truth"], windows)
