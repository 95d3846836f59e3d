"""A generator that learns textures from few images."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="diel[torch] is not installed")

from modules.simulation.ising import snapshots
from modules.training.texture import texture


def order(images: np.ndarray) -> float:
    """Mean product of neighbours: minus the energy of a bond."""
    return float(np.mean(images * np.roll(images, 1, 1) + images * np.roll(images, 1, 2)) / 2)


def test_neighbours_agree_as_often_in_what_it_makes_as_in_what_it_saw() -> None:
    real = snapshots(3.0, size=30, count=4, every=10, seed=1)["snapshots"]
    result = texture(real, count=20, sweeps=30)
    images = result["images"]
    assert images.shape == (20, 30, 30)
    assert set(np.unique(images)) == {-1, 1}
    assert order(images) == pytest.approx(order(real), abs=0.03)  # 0.41; chance has 0
    assert 0.3 < result["loss"] < 0.6  # 0.69 by chance
    # it makes images of its own
    assert np.abs(np.einsum("ahw,bhw->ab", images / 900, real / 900) * 900).max() < 0.6


def test_a_chessboard_is_a_texture_too() -> None:
    board = (np.indices((1, 12, 12)).sum(axis=0) % 2 * 2 - 1).astype(np.int8)
    assert order(texture(board, count=2, sweeps=100)["images"]) < -0.7


@pytest.mark.parametrize("wrong", [np.ones((2, 10, 12)), np.zeros((1, 12, 12)), np.ones((12, 12))])
def test_what_is_no_texture_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected images of ±1 with sides that 3 divides"):
        texture(wrong)
