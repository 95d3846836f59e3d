"""What a searcher inherits, and a search whose package is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import DielError, UsageError
from diel.base.states import TrialState
from diel.controller.search import Searcher
from diel.controller.search.optuna import OptunaSearcher
from diel.controller.search.pbt import PopulationSearcher
from diel.controller.search.searcher import SHUFFLED, conditions, grid_points, place_of, refuse_unsearchable
from diel.store.journal.axis_history import Course, Trial
from diel.workflow.load import load_text
from diel.workflow.models import Hyperparameter
from tests.search.playing import search, space
from tests.searched import SEARCH


class Halves(Searcher):
    """Halves its interval twice."""

    def ask(self) -> dict[str, Any] | None:
        self.seed += 1
        return {"x": 0.5**self.seed} if self.seed < 3 else None

    def tell(self, number: int, state: TrialState, values: list[float]) -> None:
        raise AssertionError("nothing has ended")


def test_a_searcher_needs_to_write_no_more_than_ask_and_tell() -> None:
    found = search("random")
    halves = Halves(found, space({"x": {"type": "float", "low": 0, "high": 1}}), 0)
    assert Halves.refusal(found, {}) == ""
    assert not halves.report(0, 1, 0.5)
    assert not halves.is_given_up(0)
    assert [halves.ask(), halves.ask(), halves.ask()] == [{"x": 0.5}, {"x": 0.25}, None]


class Changed(Halves):
    """A later version, which begins elsewhere."""

    def ask(self) -> dict[str, Any] | None:
        return {"x": 0.75}


def test_a_course_that_another_version_made_is_not_gone_on_with() -> None:
    course = Course((), trials=[Trial(0, {"x": 0.5}, began=0.0)], told=[[0]])
    line = space({"x": {"type": "float", "low": 0, "high": 1}})
    Halves(search("random"), line, 0).replay(course)
    with pytest.raises(DielError, match="proposes other trials"):
        Changed(search("random"), line, 0).replay(course)


def test_a_search_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = load_text(f"diel: 1\nname: w\n{SEARCH}", Path("w.yaml")).spec
    refuse_unsearchable(workflow)
    monkeypatch.setattr("diel.controller.search.searcher.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"axis 'trial' .* needs optuna: .*pip install 'diel\[search\]'"):
        refuse_unsearchable(workflow)


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
    assert type(given.nearest(high + 1e-16)) is float
    assert given.nearest(high + 1e-9) == high


@pytest.mark.parametrize(
    ("kind", "low", "high", "step", "grid"),
    [
        ("float", 0, 0.9, 0.3, [0.0, 0.3, 0.6, 0.9]),
        ("float", 0, 1, 0.3, [0.0, 0.3, 0.6, 0.9]),
        ("float", -1, 1, 0.3, [-1.0, -0.7, -0.4, -0.1, 0.2, 0.5, 0.8]),
        ("float", 0.05, 0.5, 0.15, [0.05, 0.2, 0.35, 0.5]),
        ("float", 1e-5, 3e-5, 1e-5, [1e-5, 2e-5, 3e-5]),
        ("float", 0, 0.2, 0.3, [0.0]),
        ("int", 0, 11, 3, [0, 3, 6, 9]),
    ],
)
@pytest.mark.parametrize("sampler", ["grid", "tpe", "random", "qmc", "nsga2", "pbt"])
def test_every_sampler_proposes_every_point_of_a_grid_and_no_other(
    sampler: str, kind: str, low: float, high: float, step: float, grid: list[float]
) -> None:
    over = space({"x": {"type": kind, "low": low, "high": high, "step": step}})
    searcher: Searcher = (PopulationSearcher if sampler == "pbt" else OptunaSearcher)(
        search(sampler, trials=150, **({"population": 60} if sampler == "pbt" else {})), over, 3
    )
    proposed = set()
    for number in range(150):
        if (point := searcher.ask()) is None:
            break
        proposed.add(repr(point["x"]))
        searcher.tell(number, TrialState.COMPLETE, [0.0])
    assert proposed == {repr(value) for value in grid}


def test_a_point_to_try_first_keeps_every_digit_of_a_whole_number_and_is_on_the_grid() -> None:
    over = space(
        {
            "n": {"type": "int", "low": 0, "high": 2**60},
            "x": {"type": "float", "low": 0, "high": 0.9, "step": 0.3},
        }
    )
    first = [{"n": 2**53 + 1, "x": 0.8999999999999999}]
    for sampler in ("tpe", "random", "qmc", "nsga2"):
        given = search(sampler, trials=2, parameters=["n", "x"], enqueue=first)
        assert repr(OptunaSearcher(given, over, 3).ask()) == repr({"n": 2**53 + 1, "x": 0.9})


def test_one_and_true_are_two_choices() -> None:
    assert [place_of(value, (1, True, "1", None)) for value in (1, True, "1", None)] == [0, 1, 2, 3]
