"""How near synthetic images are to real ones, by the structure factor S(k) = ⟨|Σ s exp(−ik·r)|²⟩/N."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel


class Distances(TypedDict):
    """Norm of the difference of S(k) from the real one, by the real one's norm: 0 if they are equal."""

    synthetic: float
    """Of the synthetic images."""
    few: float
    """Of the few real images that the generator had."""
    floor: float
    """Between two halves of the real images: the difference that chance makes."""
    wavenumber: list[float]
    """In units of 2π by the side of an image: the middles of the rings of the average."""
    real_factor: list[float]
    synthetic_factor: list[float]


@diel.module(kind="analysis")
def structure_factor(real: NDArray[Any], few: NDArray[Any], synthetic: NDArray[Any]) -> Distances:
    """Compare images, each of shape (images, side, side), without edges.

    real: many
    few: the images that the generator learned from
    synthetic: the images that it made
    """
    whole, generated = rings(real), rings(synthetic)

    def off(factor: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        return float(np.sqrt(np.sum((factor - other) ** 2) / np.sum(whole**2)))

    return {
        "synthetic": off(generated, whole),
        "few": off(rings(few), whole),
        "floor": off(rings(real[: len(real) // 2]), rings(real[len(real) // 2 :])),
        "wavenumber": [float(k) for k in range(len(whole))],
        "real_factor": whole.tolist(),
        "synthetic_factor": generated.tolist(),
    }


def rings(images: NDArray[Any]) -> NDArray[np.float64]:
    """Average S(k) over rings of |k| one wide, up to the first Brillouin zone's edge: (side // 2 + 1,)."""
    side = images.shape[1]
    factor = np.mean(np.abs(np.fft.fft2(images)) ** 2, axis=0) / side**2
    waves = np.fft.fftfreq(side, 1 / side)
    ring = np.rint(np.hypot(waves[:, None], waves)).astype(int).ravel()
    return np.asarray(np.bincount(ring, factor.ravel()) / np.bincount(ring))[: side // 2 + 1]
