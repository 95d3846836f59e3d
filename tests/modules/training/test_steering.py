"""A controller learns what temperatures do, and sets them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import diel
from modules.training.steering import best, steering


@dataclass
class Crystal:
    """Freezes in one of two states at 0.3, and at no other temperature; frozen, it must be cooled at once."""

    rng: np.random.Generator
    put_there: list[tuple[Any, float]] = field(default_factory=list)

    def put(self, key: Any, temperature: float) -> None:
        self.put_there.append((key, temperature))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for cluster in range(60):
            frozen = reached = False
            for step in range(0, 10_001, 500):
                over = reached or step == 10_000
                excess = 0.0 if frozen else 3.0
                yield {"cluster": cluster, "step": step, "excess": excess, "reached": reached, "over": over}
                if over:
                    break
                key, temperature = self.put_there[-1]
                assert key == ("one", cluster, step)
                reached = frozen and temperature == 0.02
                frozen = reached or (temperature == 0.3 and self.rng.random() < 0.5)


@dataclass(frozen=True)
class Beside(diel.Context):
    """A task beside others."""

    crystal: Any = None

    @property
    def space(self) -> Any:
        return self.crystal

    def stream(self, name: str) -> Any:
        return self.crystal


def test_it_finds_which_temperature_helps_in_which_state_and_how_long_it_takes(context: diel.Context) -> None:
    crystal = Crystal(np.random.default_rng(1))
    beside = Beside(task_dir=context.task_dir, crystal=crystal)
    options: dict[str, Any] = {"edges": [1.0], "learning": 40, "limit": 10_000}
    result = steering(beside, "one", [0.02, 0.15, 0.3, 0.45], **options)
    assert result["policy"] == [0.02, 0.3]
    # one state to be cooled, two on average to freeze before
    assert result["expected"] == pytest.approx([500, 1500], rel=0.25)
    # what it learned from is counted, and afterwards it tries nothing
    learned = [key for key, _ in crystal.put_there if key[1] < 40]
    assert result["learned"] == 500 * len(learned)
    assert {temperature for key, temperature in crystal.put_there if key[1] >= 40} == {0.02, 0.3}
    with np.load(result["model"]) as model:
        assert model["counts"].sum() == len(learned)


def test_the_best_choice_is_that_of_the_fewest_steps_to_be_expected() -> None:
    slow, risky = [0.1, 0.9, 0.0], [0.5, 0.0, 0.5]  # the target, here, a state that leads nowhere
    kinds = np.array([[[1, 0, 0]] * 2, [slow, risky], [[0, 0, 1]] * 2], dtype=float)
    policy, expected = best(kinds, 100)
    assert policy[1] == 0
    assert expected[1] == pytest.approx(10, rel=1e-3)
    policy, expected = best(kinds, 3)  # where nothing lasts longer than three states
    assert policy[1] == 1
    assert expected[1] == pytest.approx(1 + 0.5 * 2)
