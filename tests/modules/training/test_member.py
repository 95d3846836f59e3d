"""Pieces of a training that go on from each other, each at a rate of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="diel[examples] is not installed")

from modules.training.member import compare, least, member

LABELS = np.arange(60) % 3
DATA = np.random.default_rng(0).normal(size=(60, 4, 2)) + 3 * LABELS[:, None, None]


def test_a_piece_goes_on_where_another_one_stopped(workspace: Path) -> None:
    first = member(DATA, LABELS, 0.1, epochs=2)
    weights = first["weights"].rename("first.npz")
    second = member(DATA, LABELS, 0.02, weights=weights, seed=1)
    assert second["rates"] == [0.1, 0.1, 0.02]
    assert least(DATA, LABELS)["loss"] < second["loss"] < first["loss"]


def test_many_small_steps_come_close_to_the_smallest_loss(workspace: Path) -> None:
    result = member(DATA, LABELS, 0.01, epochs=200, batch=60)
    longer = member(DATA, LABELS, 0.2, epochs=2000, batch=60)
    assert longer["loss"] == pytest.approx(least(DATA, LABELS)["loss"], abs=1e-3)
    assert longer["loss"] < result["loss"]


def test_a_rate_that_is_too_large_has_a_loss_all_the_same(workspace: Path) -> None:
    assert member(DATA, LABELS, 1e9, epochs=20)["loss"] == 100.0


def test_the_best_constant_is_that_of_each_seed(capsys: pytest.CaptureFixture[str]) -> None:
    result = compare([1.1, 2.1], [[0.1], [0.2]], [1.4, 1.2, 2.3, 2.2], [1.0, 2.0, 1.0, 2.0], [1.0, 2.0])
    assert result["population"] == pytest.approx([0.1, 0.1])
    assert result["constant"] == pytest.approx([0.2, 0.2])
    assert result["ratio"] == pytest.approx(0.5)
    assert "  1: 0.2; 2\n" in capsys.readouterr().out
