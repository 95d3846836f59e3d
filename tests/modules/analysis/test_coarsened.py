"""Means over blocks are stored within the bound, in fewer bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import diel
from modules.analysis.coarsened import coarsened


def test_each_mean_is_within_the_bound(tmp_path: Path, context: diel.Context) -> None:
    fine = np.random.default_rng(0).normal(size=(3, 16, 8)).astype(np.float32)
    np.save(tmp_path / "fine.npy", fine)
    result = coarsened(tmp_path / "fine.npy", 0.05, context)
    with np.load(result["stored"]) as file:
        stored = file["places"] * 2 * file["bound"]
    true = np.array(
        [[[fine[s, r : r + 4, c : c + 4].mean() for c in (0, 4)] for r in (0, 4, 8, 12)] for s in range(3)]
    )
    assert 0.03 < np.abs(stored - true).max() <= 0.05 + 1e-6
    assert result["bytes"] == result["stored"].stat().st_size
    assert result["bytes"] < result["fine_bytes"]
    assert result["raw_bytes"] == 3 * 16 * 8 * 4
    with pytest.raises(ValueError, match="blocks of 3 × 3 do not fill fields of 16 × 8"):
        coarsened(tmp_path / "fine.npy", 0.05, context, factor=3)
