"""How near restored fields are to the true ones: decibels, spectra, and the bound."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

import diel


class Fidelity(TypedDict):
    """Means over all states."""

    psnr: float
    """Peak signal-to-noise ratio in dB; the peak is the range of all true fields."""
    squared: float
    """Mean squared error: 3 dB are a half of it."""
    kept: float
    """Largest distance of a block's mean from the true one, by the bound."""
    spectrum: list[float]
    """Mean square of the waves of each whole wave number from 1 on."""
    true_spectrum: list[float]
    fine: float
    """Power in waves that the coarse grid does not carry, by that of the true fields."""


@diel.module(kind="analysis")
def restored(fields: Path, restored: Path, stored: Path) -> Fidelity:
    """Compare restored fields with the true ones.

    fields: .npy of shape (states, size, size)
    restored: .npy of the same shape
    stored: of `analysis.coarsened`
    """
    true, estimate = np.load(fields).astype(float), np.load(restored)
    with np.load(stored) as file:
        bound, factor = float(file["bound"]), int(file["factor"])
    squared = ((estimate - true) ** 2).mean(axis=(1, 2))
    before, after = spectrum(true), spectrum(estimate)
    carried = true.shape[-1] // factor // 2 - 1  # the place of the first wave that the coarse grid lacks
    return {
        "psnr": float((10 * np.log10(np.ptp(true) ** 2 / squared)).mean()),
        "squared": float(squared.mean()),
        "kept": float(np.abs(means(estimate, factor) - means(true, factor)).max() / bound),
        "spectrum": after.tolist(),
        "true_spectrum": before.tolist(),
        "fine": float(after[carried:].sum() / before[carried:].sum()),
    }


def means(fields: NDArray[np.float64], factor: int) -> NDArray[np.float64]:
    """Return means over blocks."""
    count, rows, columns = fields.shape
    blocks = fields.reshape(count, rows // factor, factor, columns // factor, factor)
    return np.asarray(blocks.mean(axis=(2, 4)))


def spectrum(fields: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mean squares by whole wave numbers, from 1 to half the size."""
    size = fields.shape[-1]
    power = (np.abs(np.fft.fft2(fields) / size**2) ** 2).mean(axis=0)
    wave = np.fft.fftfreq(size, 1 / size)
    shell = np.rint(np.hypot(wave[:, None], wave)).astype(int)
    return np.asarray(np.bincount(shell.ravel(), power.ravel())[1 : size // 2], float)
