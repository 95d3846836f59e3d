"""A model that follows a course says how far it is within what is wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diel.tabular import Lstm, Model, Scale

RNG = np.random.default_rng(0)
STEPS, HIDDEN = 6, 3
LOW = np.where(np.arange(STEPS) == 2, 0.1, -np.inf)
COURSE = Lstm(
    inner=RNG.normal(size=(HIDDEN, 4 * HIDDEN)),
    places=RNG.normal(size=(STEPS, 4 * HIDDEN)),
    outer=RNG.normal(size=HIDDEN + 1),
    low=LOW,
    high=np.full(STEPS, 2.0),
)
MODEL = Model(
    ("a", "b"),
    "margin",
    "silu",
    Scale(np.zeros(2), np.ones(2), 0.0, 1.0),
    ((RNG.normal(size=(2, 2 * HIDDEN)), RNG.normal(size=2 * HIDDEN)),),
    course=COURSE,
)
ROWS = RNG.normal(size=(700, 2))


def by_hand(begun: np.ndarray) -> list[float]:
    """One course, gate by gate, as Hochreiter, Schmidhuber and Gers wrote it."""
    state, cell, told = np.tanh(begun[:HIDDEN]), begun[HIDDEN:], []
    for place in COURSE.places:
        let_in, keep, new, out = np.split(state @ COURSE.inner + place, 4)
        sigmoid = [1 / (1 + np.exp(-gate)) for gate in (let_in, keep, out)]
        cell = sigmoid[1] * cell + sigmoid[0] * np.tanh(new)
        state = sigmoid[2] * np.tanh(cell)
        told.append(float(state @ COURSE.outer[:-1] + COURSE.outer[-1]))
    return told


def test_a_course_is_what_the_gates_make_of_it_and_its_margin_that_of_its_worst_place(tmp_path: Path) -> None:
    weight, bias = MODEL.layers[0]
    expected = np.array([by_hand(row @ weight + bias) for row in ROWS])
    assert COURSE.follow(ROWS @ weight + bias) == pytest.approx(expected, abs=1e-12)
    margins = np.minimum(expected[:, 2] - 0.1, (2 - expected).min(axis=1))
    assert MODEL.predict(ROWS) == pytest.approx(margins, abs=1e-12)
    read = Model.load(MODEL.save(tmp_path / "model.npz"))
    assert read.predict(ROWS) == pytest.approx(margins, abs=1e-5)


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a course's low: expected numbers of shape \(6,\), found \(5,\)"):
        replace(COURSE, low=LOW[1:])
    narrow = replace(MODEL, layers=((np.ones((2, 1)), np.ones(1)),)).save(tmp_path / "narrow.npz")
    with pytest.raises(ValueError, match="its last layer gives 1 values for a row, not 6"):
        Model.load(narrow)
