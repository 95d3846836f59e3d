"""Lorenz's model moves as its equation says, and a network that learned its steps moves nearly so."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import diel
from diel import tabular
from modules.simulation.lorenz96 import REACH, change, course, forecast, lorenz96, rows


def test_each_variable_changes_as_lorenz_wrote() -> None:
    x = np.random.default_rng(0).normal(size=40)
    expected = [(x[(i + 1) % 40] - x[i - 2]) * x[i - 1] - x[i] + 8 for i in range(40)]
    assert change(x) == pytest.approx(expected)


def test_small_errors_double_as_often_as_lorenz_found() -> None:
    """In 2.1 days (0.42 units of time), for F = 8: a leading exponent of 1.65 to 1.7."""
    rng = np.random.default_rng(0)
    states = course(8 + rng.normal(size=(50, 40)), 400)[-1]
    near = states + 1e-7 * rng.normal(size=states.shape)
    apart = np.linalg.norm(course(near, 200) - course(states, 200), axis=-1)
    rate = np.log(apart[199] / apart[79]).mean() / (120 * 0.05)
    assert np.log(2) / rate == pytest.approx(0.42, abs=0.04)


def test_sensors_err_by_a_unit_and_are_the_same_for_the_same_seed() -> None:
    result = lorenz96(steps=200, sensors=20, members=3, seed=4)
    assert result["ensemble"].shape == (3, 40)
    errors = result["observations"] - result["truth"][:, ::2]
    assert errors.std() == pytest.approx(1.0, abs=0.05)
    assert (
        lorenz96(steps=200, sensors=20, members=3, seed=4)["observations"] == result["observations"]
    ).all()
    with pytest.raises(ValueError, match="divide the 40 variables; found 7"):
        lorenz96(steps=1, sensors=7)


def test_parts_of_an_ensemble_are_the_ensemble() -> None:
    ensemble = lorenz96(steps=1, members=5)["ensemble"]
    whole = forecast(ensemble, steps=2)["course"]
    parts = [forecast(ensemble, steps=2, part=part, parts=2)["course"] for part in range(2)]
    assert sorted(whole[1].tolist()) == sorted(np.concatenate(parts, axis=1)[1].tolist())


def test_a_network_is_told_neighbours_as_its_rows_had_them(context: diel.Context) -> None:
    """A model that is linear in its features must move every variable alike, in forecasts and in rows."""
    weights = np.arange(1.0, 1 + len(REACH))
    with rows(context, count=80, seed=1)["table"].open(encoding="utf-8") as file:
        table = list(csv.reader(file))
    assert table[0] == ["x-4", "x-3", "x-2", "x-1", "x+0", "x+1", "x+2", "x+3", "change"]
    read = np.array(table[1:], float)
    assert read.shape == (80, 9)
    scale = tabular.Scale(np.zeros(8), np.ones(8), 0.0, 1.0)
    layer = weights[:, None].astype(np.float32), np.zeros(1, np.float32)
    model = tabular.Model(tuple(table[0][:-1]), "change", "relu", scale, (layer,)).save(
        context.task_dir / "m.npz"
    )
    state = read[:40, 4]  # the first 40 rows are one state
    moved = forecast(state[None], steps=1, network=model, by="network")["course"][0, 0]
    assert moved == pytest.approx(state + read[:40, :8] @ weights, rel=1e-5)
    with pytest.raises(ValueError, match="needs the input `network`"):
        forecast(state[None], steps=1, by="network")
