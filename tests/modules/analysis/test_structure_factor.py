"""Structure factors of made images beside real ones."""

from __future__ import annotations

import numpy as np
import pytest

from modules.analysis.structure_factor import rings, structure_factor

CHANCE = np.random.default_rng(1)


def test_chance_has_the_same_factor_at_all_wavenumbers() -> None:
    assert rings(CHANCE.choice([-1, 1], (400, 12, 12))) == pytest.approx(np.ones(7), abs=0.3)


def test_a_wave_is_seen_at_its_wavenumber() -> None:
    wave = np.where(np.arange(12) // 3 % 2, 1, -1) * np.ones((1, 12, 1), int)  # two periods in twelve sites
    assert np.argmax(rings(wave)) == 2


def test_images_of_one_kind_are_as_near_as_halves_and_others_are_far() -> None:
    def rough(count: int) -> np.ndarray:
        field = CHANCE.normal(size=(count, 12, 12))
        return np.where(field + np.roll(field, 1, 1) + np.roll(field, 1, 2) > 0, 1, -1)

    real, few = rough(400), rough(4)
    near = structure_factor(real, few, rough(400))
    far = structure_factor(real, few, CHANCE.choice([-1, 1], (400, 12, 12)))
    assert near["synthetic"] < 2.5 * near["floor"]
    assert near["few"] > near["floor"]
    assert far["synthetic"] > 3 * far["floor"]
    assert len(near["wavenumber"]) == len(near["real_factor"]) == len(near["synthetic_factor"]) == 7
