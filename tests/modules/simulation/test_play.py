"""Actors, and a judge of what was learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="diel[reinforcement] is not installed")

from modules.simulation.play import Policy, judge


def weights(last: list[list[float]]) -> dict[str, np.ndarray]:
    """A policy that does what the last layer says of the four numbers that it sees."""
    small = 1e-3 * np.eye(4)  # where tanh is a straight line
    layers = [small, np.eye(4), np.array(last)]
    arrays = {f"weight{number}": layer for number, layer in enumerate(layers)}
    return arrays | {f"bias{number}": np.zeros(len(layer)) for number, layer in enumerate(layers)}


def test_choices_come_as_often_as_their_probabilities_say() -> None:
    policy = Policy({**weights([[0.0] * 4] * 3), "bias2": np.log([0.2, 0.3, 0.5])})
    actions, logs = policy.draw(np.zeros((20_000, 4)), np.random.default_rng(1))
    assert np.bincount(actions) / 20_000 == pytest.approx([0.2, 0.3, 0.5], abs=0.015)
    assert np.exp(logs) == pytest.approx(np.array([0.2, 0.3, 0.5])[actions])
    assert (policy.best(np.zeros((2, 4))) == 2).all()


def test_numbers_scatter_around_the_best_ones() -> None:
    policy = Policy({**weights([[1.0, 0, 0, 0], [0, 1.0, 0, 0]]), "spread": np.log([0.1, 0.2])})
    observations = np.tile([3.0, -2.0, 0, 0], (20_000, 1))
    best = policy.best(observations[:1])[0]
    assert best == pytest.approx([3e-3, -2e-3], rel=1e-3)
    actions, logs = policy.draw(observations, np.random.default_rng(1))
    assert actions.mean(axis=0) == pytest.approx(best, abs=0.006)
    assert actions.std(axis=0) == pytest.approx([0.1, 0.2], rel=0.02)
    density = -0.5 * ((actions - best) / [0.1, 0.2]) ** 2 - np.log([0.1, 0.2]) - 0.5 * np.log(2 * np.pi)
    assert logs == pytest.approx(density.sum(axis=1))


def test_a_policy_that_pushes_where_the_pole_falls_balances_longer_than_chance(tmp_path: Path) -> None:
    lean = [0.0, 0.1, 1.0, 0.5]  # x, its speed, the angle, its speed: push to where it falls
    np.savez(tmp_path / "lean.npz", **weights([[-value for value in lean], lean]))  # type: ignore[arg-type]
    np.savez(tmp_path / "other.npz", **weights([lean, [-value for value in lean]]))  # type: ignore[arg-type]
    result = judge("CartPole-v1", tmp_path / "lean.npz", episodes=20)
    assert 15 < result["score_without"] < 35  # 22 by chance
    assert result["score"] > 100
    assert result["least"] <= result["score"] <= 500
    # to push away from where it falls is worse than chance: ten steps or fewer
    assert judge("CartPole-v1", tmp_path / "other.npz", episodes=20)["score"] < 11
