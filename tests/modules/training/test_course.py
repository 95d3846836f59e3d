"""An LSTM learns courses, and what it says of them is what a screen reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import diel
from diel import tabular

pytest.importorskip("torch", reason="diel[torch] is not installed")
from modules.training.course import course, want


def learned(folder: Path, context: diel.Context) -> tuple[Path, float]:
    """A model of waves a + sin(2π b x), and its share of the variance."""
    rows = np.random.default_rng(0).uniform(0.3, 1, (240, 2))
    places = (np.arange(10) + 0.5) / 10
    np.save(folder / "rows.npy", rows)
    np.save(folder / "told.npy", rows[:, :1] + np.sin(2 * np.pi * rows[:, 1:] * places))
    files = [folder / "rows.npy"], [folder / "told.npy"]
    result = course(*files, ["a", "b"], context, hidden=8, width=16, batch=40, epochs=30, learning_rate=0.02)
    return result["model"], result["r2"]


def test_waves_are_learned_and_those_that_are_wanted_are_found(tmp_path: Path, context: diel.Context) -> None:
    path, r2 = learned(tmp_path, context)
    assert r2 > 0.95
    model = tabular.Model.load(
        want(path, bright=[[0.2, 0.3]], dark=[[0.7, 0.8]], context=context, level=0.5, gap=0.2)["model"]
    )
    margins = model.predict(np.array([[0.5, 1.0], [0.9, 0.3]]))
    assert margins[0] == pytest.approx(0.8, abs=0.25)  # 0.5 ± 1, beside 0.7 and 0.3
    assert margins[1] < -0.5
    with pytest.raises(ValueError, match=r"no place of 10 lies in the zone \[0.11, 0.12\]"):
        want(path, bright=[[0.11, 0.12]], dark=[], context=context)
