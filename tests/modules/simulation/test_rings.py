"""Rings on a disc: diffusion is that of a disc, steps and cells are fine enough, and a spot alone disturbs rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import jn_zeros

import diel
from modules.simulation.rings import NAMES, modes, of, resting, rings, simulated

RANGES = {"activator": [0.03, 0.05], "inhibitor": [0.1, 0.3], "supply": [-0.1, 0.1], "coupling": [1.2, 1.6]}
RANGES["spot"] = [0.2, 0.3]
SETS = np.array([[0.05, 0.2, 0.05, 1.5, 0.25], [0.04, 0.3, -0.1, 1.2, 0.2]])


def test_diffusion_on_the_disc_decays_as_bessel_functions_do() -> None:
    values, there, back = modes(48)
    expected = [*(-(jn_zeros(1, 4)[::-1] ** 2)), 0]  # no flow at the rim: J0'(k) = −J1(k) = 0
    assert np.sort(values)[-5:] == pytest.approx(expected, rel=0.01, abs=1e-9)
    assert there @ back == pytest.approx(np.eye(48), abs=1e-9)


def test_finer_cells_and_steps_make_the_same_rings() -> None:
    coarse, fine = simulated(SETS, 10.0)[0], simulated(SETS, 10.0, cells=96, step=0.025)[0]
    assert np.ptp(coarse, axis=1).min() > 0.5  # there are some
    assert fine.reshape(2, 48, 2).mean(axis=2) == pytest.approx(coarse, abs=0.05)


def test_what_is_at_rest_stays_and_its_spot_is_forgotten_without_an_instability() -> None:
    calm = np.array([[0.05, 0.05, 0.3, 2.5, 0.1]])  # an inhibitor that spreads no farther than the activator
    rest = float(resting(calm[:, [2]], calm[:, [3]])[0, 0])
    assert (1 - 2.5) * rest - rest**3 + 0.3 == pytest.approx(0, abs=1e-12)
    assert simulated(calm, 30.0) == pytest.approx(np.full((2, 1, 48), rest), abs=1e-5)


def test_sets_that_are_given_are_simulated_as_those_that_were_drawn(context: diel.Context) -> None:
    drawn = rings(context, RANGES, count=3, time=2.0, seed=1)
    sets, courses = np.load(drawn["parameters"]), np.load(drawn["courses"])
    assert courses.shape == (3, 24)
    low, high = np.array([RANGES[name] for name in NAMES]).T
    assert ((low <= sets) & (sets <= high)).all()
    rows: list[dict[str, Any]] = [dict(zip(NAMES, row, strict=True), prediction=1.0) for row in sets.tolist()]
    assert np.load(of(rows, context, time=2.0)["courses"]) == pytest.approx(courses, abs=1e-6)
    with pytest.raises(ValueError, match="expected ranges"):
        rings(context, {"activator": [0.1, 0.2]}, count=3)
