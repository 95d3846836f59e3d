"""Restored fields beside true ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modules.analysis.restored import restored, spectrum

PLACES = np.arange(16) * 2 * np.pi / 16


def test_decibels_means_and_spectra_are_those_of_the_difference(tmp_path: Path) -> None:
    true = (
        2 * np.cos(3 * PLACES)[None, :, None]
        + np.sqrt(2) * np.sin(6 * PLACES)[None, None, :]
        + np.zeros((2, 1, 1))
    )
    np.save(tmp_path / "true.npy", true)
    np.save(tmp_path / "made.npy", true + 0.1)
    np.savez(tmp_path / "stored.npz", bound=0.05, factor=4)
    result = restored(tmp_path / "true.npy", tmp_path / "made.npy", tmp_path / "stored.npz")
    assert result["squared"] == pytest.approx(0.01)
    assert result["psnr"] == pytest.approx(20 * np.log10(np.ptp(true) / 0.1))
    assert result["kept"] == pytest.approx(2)
    assert result["fine"] == pytest.approx(1)
    assert result["spectrum"] == pytest.approx([0, 0, 2, 0, 0, 1, 0], abs=1e-12)  # mean squares, 2²/2 and 2/2
    assert spectrum(true).tolist() == result["true_spectrum"]
