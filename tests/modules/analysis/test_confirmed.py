"""Shares of what a screen found, as simulations have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from diel.ml.tabular import Lstm, Model, Scale
from modules.analysis.confirmed import confirmed

NOTHING = Lstm(np.zeros((1, 4)), np.zeros((2, 4)), np.zeros(2), np.array([0.5, -9]), np.array([9, 0.0]))
LAYERS = ((np.zeros((1, 2)), np.zeros(2)),)
MODEL = Model(("a",), "margin", "silu", Scale(np.zeros(1), np.ones(1), 0.0, 1.0), LAYERS, course=NOTHING)


def test_the_share_is_of_what_was_found_and_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wanted is at least 0.5 at the first place, and at most 0 at the second."""
    np.save(tmp_path / "found.npy", np.array([[1.0, -1], [0.6, 0.1], [0.9, -0.2], [1, -1]]))
    np.save(tmp_path / "drawn.npy", np.array([[1.0, -1], *[[0, 0]] * 4]))
    best = [{"a": 0.0, "prediction": margin} for margin in (0.3, 0.2, 0.1, -0.1)]
    histogram = {"low": -0.25, "width": 0.25, "counts": [90, 7, 2]}
    model, drawn = MODEL.save(tmp_path / "model.npz"), [tmp_path / "drawn.npy"] * 2
    result = confirmed(model, tmp_path / "found.npy", drawn, best, histogram)
    assert result == {"found": 9, "simulated": 3, "share": pytest.approx(2 / 3), "drawn": 10, "base": 0.2}
    assert "of the best 3 simulation confirms 2 (66.7%); at random 2 of 10" in capsys.readouterr().out
    with pytest.raises(ValueError, match="expected a model of training.course:want, and 2 courses; found 4"):
        confirmed(model, tmp_path / "found.npy", drawn, best[:2], histogram)
