"""A classifier that has few real images."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="diel[torch] is not installed")

from modules.training.few import bound, few, moved

CHANCE = np.random.default_rng(3)


def stripes(count: int, wide: int) -> np.ndarray:
    """Stripes of some width, with noise."""
    clean = np.where(np.arange(12) // wide % 2, 1, -1) * np.ones((count, 12, 1), int)
    return np.asarray(clean * CHANCE.choice([1, -1], clean.shape, p=[0.9, 0.1]))


def test_synthetic_images_teach_what_the_real_ones_do_not_show() -> None:
    real = [stripes(2, 2), stripes(2, 2)]  # nothing tells these two apart
    right = [stripes(40, 2), stripes(40, 3)]
    without = few(real, right, right, "real", steps=120)
    with_them = few(real, right, right, "synthetic", steps=120)
    assert with_them["accuracy"] > 0.9 > 0.7 > without["accuracy"]
    assert (without["images"], with_them["images"]) == (4, 84)


def test_symmetries_move_turn_mirror_and_invert() -> None:
    image = CHANCE.choice([-1, 1], (6, 6))
    turned = [np.rot90(view, k) for view in (image, image.T) for k in range(4)]
    places = [(x, y) for x in range(6) for y in range(6)]
    same = {
        (sign * np.roll(view, at, (0, 1))).tobytes() for view in turned for at in places for sign in (1, -1)
    }
    variants = moved(np.stack([image] * 200), CHANCE)
    assert {variant.tobytes() for variant in variants} <= same
    assert len({variant.tobytes() for variant in variants}) > 120  # of 576


def test_the_bound_is_what_energies_tell() -> None:
    def noise(count: int, flipped: float) -> np.ndarray:
        return CHANCE.choice([1, -1], (count, 12, 12), p=[1 - flipped, flipped])

    far = [noise(100, 0.05), noise(100, 0.4)]
    assert bound(far, [noise(100, 0.05), noise(100, 0.4)])["accuracy"] == 1
    alike = [noise(100, 0.5), noise(100, 0.5)]
    assert 0.3 < bound(alike, [noise(100, 0.5), noise(100, 0.5)])["accuracy"] < 0.7
