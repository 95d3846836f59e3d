"""What a search draws from."""

from __future__ import annotations

from typing import Any

import pytest

from diel.search.searcher import SHUFFLED, conditions, grid_points, place_of, within
from diel.spec import Hyperparameter
from tests.search.playing import space

NETWORK: dict[str, dict[str, Any]] = {
    "momentum": {"type": "float", "low": 0, "high": 0.9, "step": 0.3, "when": "hp.optimizer == 'sgd'"},
    "nesterov": {"type": "bool", "when": "${{ hp.optimizer == 'sgd' and hp.momentum > 0.5 }}"},
    "optimizer": {"type": "choice", "choices": ["adam", "sgd"]},
}


def test_a_hyperparameter_is_drawn_after_those_that_its_condition_reads() -> None:
    over = space(NETWORK, ("nesterov", "momentum", "optimizer"))
    assert list(over.parameters) == ["optimizer", "momentum", "nesterov"]
    assert conditions(over.parameters["nesterov"]) == ("momentum", "optimizer")


def test_a_condition_reads_what_was_drawn_and_the_values_of_all_others() -> None:
    over = space(NETWORK, ("momentum", "optimizer"), optimizer="adam")
    assert not over.is_drawn("momentum", {})
    assert over.is_drawn("momentum", {"optimizer": "sgd"})
    over = space(NETWORK, ("momentum",), optimizer="sgd")
    assert over.is_drawn("momentum", {})


def test_a_grid_has_each_point_once_and_no_second_one_for_what_is_not_drawn() -> None:
    points = list(grid_points(space(NETWORK), 3))
    told = sorted(str(sorted(point.items())) for point in points)
    assert len(set(told)) == len(told) == 1 + 2 + 2 * 2
    assert points.count({"optimizer": "adam"}) == 1


def test_the_order_of_a_grid_is_random_and_its_seed_s() -> None:
    over = space({"n": {"type": "int", "low": 1, "high": 50}})
    first, again, other = (list(grid_points(over, seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(point["n"] for point in first) == list(range(1, 51)) != [point["n"] for point in first]


def test_a_large_grid_is_not_listed() -> None:
    over = space({name: {"type": "int", "low": 1, "high": 1000} for name in "abcd"})
    assert SHUFFLED < 1000**4
    found = grid_points(over, 1)
    assert len({tuple(next(found).values()) for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("low", "high", "step"), [(0, 0.3, 0.1), (0.1, 0.7, 0.2), (0, 3, 1), (1, 2.05, 0.35)]
)
def test_listed_values_are_floats_within_their_bounds(low: float, high: float, step: float) -> None:
    """0.1 + 2 * 0.1 is a little more than 0.3."""
    given = Hyperparameter(type="float", low=low, high=high, step=step)
    assert given.listed is not None
    assert all(type(value) is float and low <= value <= high for value in given.listed)
    assert all(given.accept(value) == value for value in given.listed)
    assert type(within(given, high + 1e-16)) is float
    assert within(given, high + 1e-9) == high


def test_one_and_true_are_two_choices() -> None:
    assert [place_of(value, (1, True, "1", None)) for value in (1, True, "1", None)] == [0, 1, 2, 3]
