"""Compositions and pair correlations of arrangements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from diel import tabular
from diel.tabular import Model, Pairs, Scale

CUBE = [[x, y, z] for x in range(2) for y in range(2) for z in range(2)]


def test_correlations_are_means_over_pairs_of_atoms() -> None:
    ring = Pairs.of([[n, 0, 0] for n in range(6)], [6, 1, 1])
    assert ring.names == ("share", "pair_1", "pair_2", "pair_3")
    alternating, half, none = 0b010101, 0b000111, 0
    seen = ring.see(np.array([alternating, half, none], float))
    assert seen == pytest.approx(
        np.array([[0.5, -1, 1, -1], [0.5, 1 / 3, -1 / 3, -1], [0, 1, 1, 1]]), abs=1e-6
    )


def test_arrangements_that_a_symmetry_makes_equal_look_equal() -> None:
    cube = Pairs.of(CUBE, [2, 2, 2])
    corners = cube.see(np.array([1 << n for n in range(8)], float))
    assert np.ptp(corners, axis=0).max() < 1e-6


@pytest.mark.parametrize(
    ("sites", "said"),
    [([[0, 0, 0]], "2 to 52 sites"), ([[0, 0, 0], [1, 0, 0], [3, 0, 0]], "different surroundings")],
)
def test_what_is_no_crystal_is_refused(sites: list[list[int]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Pairs.of(sites, [8, 1, 1])


def test_a_model_of_arrangements_comes_back_from_its_file(tmp_path: Path) -> None:
    pairs = Pairs.of(CUBE, [2, 2, 2])
    wide = len(pairs.names)
    layers = ((np.eye(wide)[:, :1], np.zeros(1)),)
    model = Model(("site",), "y", "tanh", Scale(np.zeros(wide), np.ones(wide), 0.0, 1.0), layers, pairs)
    loaded = tabular.Model.load(model.save(tmp_path / "model.npz"))
    rows = np.array([[0.0], [255.0], [15.0], [128.0]])
    assert loaded.predict(rows) == pytest.approx([0, 1, 0.5, 0.125], abs=1e-6)  # the share of ones
