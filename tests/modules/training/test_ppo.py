"""A learner with actors beside it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from threading import Condition
from typing import Any

import numpy as np
import pytest

for library in ("gymnasium", "torch"):
    pytest.importorskip(library, reason="diel[reinforcement] or diel[torch] is not installed")

import diel  # noqa: E402
from modules.simulation.play import play  # noqa: E402
from modules.training.ppo import LearnedPolicy, Scale, advantages, ppo  # noqa: E402


@dataclass
class Space:
    """A tuple space in memory."""

    there: dict[Any, Any] = field(default_factory=dict)
    changed: Condition = field(default_factory=Condition)

    def put(self, key: Any, value: Any) -> None:
        with self.changed:
            self.there[key] = value
            self.changed.notify_all()

    def read(self, key: Any, timeout: float) -> tuple[Any, Any]:
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.there, timeout)
            return key, self.there[key]

    def take(self, key: Any) -> tuple[Any, Any]:
        with self.changed:
            return key, self.there.pop(key)


class Items(Queue[Any]):
    """A stream in memory."""

    def __iter__(self) -> Any:
        return iter(self.get, None)


@dataclass(frozen=True)
class Beside(diel.Context):
    """A task beside others."""

    shared: Any = None
    items: Any = None

    @property
    def space(self) -> Any:
        return self.shared

    def stream(self, name: str) -> Any:
        return self.items


Learn = Callable[..., tuple[LearnedPolicy, dict[str, Any], Space]]


@pytest.fixture
def learn(tmp_path: Path) -> Learn:
    """Has a learner and its actors play for some batches; gives the policy, and what is left in the space."""

    def call(batches: int, actors: int, lag: int) -> tuple[LearnedPolicy, dict[str, Any], Space]:
        context = Beside(task_dir=tmp_path, shared=Space(), items=Items())
        options: dict[str, Any] = {"learner": "one", "batches": batches, "lag": lag, "seed": 4}

        def act(actor: int) -> None:
            play(context, "CartPole-v1", environments=8, actor=actor, **options)

        with ThreadPoolExecutor(actors + 1) as threads:
            learner = threads.submit(ppo, context, actors=actors, **options)
            for done in [threads.submit(act, actor) for actor in reversed(range(actors))]:
                done.result()
            context.items.put(None)
            learned = learner.result()
        with np.load(learned["model"]) as file:
            return learned, dict(file), context.shared

    return call


def test_two_actors_and_a_learner_give_the_same_policy_whoever_is_faster(learn: Learn) -> None:
    learned, first, space = learn(batches=4, actors=2, lag=1)
    assert (
        learned["staleness"] == 0.75
    )  # the first batch is played by the newest policy, the others by one before
    assert 4 * 2 * 8 * 32 * 0.8 < learned["steps"] <= 4 * 2 * 8 * 32
    assert [key for key in space.there if key[1] != "spaces"] == [("one", 3), ("one", 4)]
    again, second, _ = learn(batches=4, actors=2, lag=1)
    assert all((first[name] == second[name]).all() for name in first)
    assert learned["episode"] == again["episode"]


def test_without_lag_the_policy_that_plays_is_the_newest(learn: Learn) -> None:
    assert learn(batches=3, actors=1, lag=0)[0]["staleness"] == 0


def test_advantages_are_sums_of_what_surprised_up_to_the_end_of_the_episode() -> None:
    values = np.array([[1.0], [2.0], [3.0], [4.0]])
    batch = {
        "rewards": np.array([[1.0], [1.0], [1.0]]),
        "terminated": np.array([[False], [True], [False]]),
        "ended": np.array([[False], [True], [True]]),  # the third by its limit: its last state has a value
    }
    gains = advantages(values, batch, discount=0.5, trace=0.8)
    assert gains[2, 0] == pytest.approx(1 + 0.5 * 4 - 3)
    assert gains[1, 0] == pytest.approx(1 - 2)
    assert gains[0, 0] == pytest.approx(1 + 0.5 * 2 - 1 + 0.5 * 0.8 * gains[1, 0])


def test_rewards_are_scaled_by_the_deviation_of_their_sums_so_far() -> None:
    rewards = np.random.default_rng(2).normal(0, 7, (400, 50))
    batch = {"rewards": rewards, "ended": np.zeros(rewards.shape, bool)}
    # of a sum of independent numbers: σ/√(1 − γ²)
    assert Scale(0.6)(batch) == pytest.approx(rewards / (7 / 0.8), rel=0.02)
