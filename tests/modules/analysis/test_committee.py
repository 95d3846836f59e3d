"""A committee chooses, is judged, and is compared with another way."""

from __future__ import annotations

import pytest

from modules.analysis.committee import choose, compare, judge

Columns = dict[str, list[float]]
PLACES: Columns = {"t": [0.0, 1.0, 2.0, 3.0, 4.0]}


def test_the_state_on_which_the_members_disagree_most_comes_first() -> None:
    chosen = choose([[0, 0, 1.0, 0, 0], [0, 0.5, -1.0, 0, 0]], PLACES, {"t": []}, 2)
    assert chosen["states"] == [{"t": 2.0}, {"t": 1.0}]
    assert chosen["columns"] == {"t": [2.0, 1.0]}
    assert chosen["disagreement"] == [1.0, 0.25]


def test_a_state_that_is_known_is_not_asked_for_again() -> None:
    predicted = [[0, 0.1, 1.0, 0, 0], [0, 0, -1.0, 0, 0]]
    chosen = choose(predicted, PLACES, {"t": [2.0], "m": [0.5]}, 1)
    assert chosen["states"] == [{"t": 1.0}]


def test_of_states_close_together_only_one_is_chosen() -> None:
    near = {"t": [0.0, 0.001, 1.0]}
    chosen = choose([[1.0, 1.01, 0.5], [-1.0, -1.0, 0.0]], near, {"t": []}, 2)
    assert chosen["states"] == [{"t": 0.001}, {"t": 1.0}]


def test_as_many_states_are_chosen_as_were_asked_for_though_all_agree() -> None:
    chosen = choose([[1.0] * 5, [1.0] * 5], PLACES, {"t": []}, 5)
    assert sorted(state["t"] for state in chosen["states"]) == PLACES["t"]


def test_predictions_that_do_not_fit_the_candidates_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 5 predictions of each member; found 4"):
        choose([[0.0] * 5, [0.0] * 4], PLACES, {"t": []})
    with pytest.raises(ValueError, match="5 candidates, too few to choose 6"):
        choose([[0.0] * 5, [0.0] * 5], PLACES, {"t": []}, 6)


def test_the_mean_of_the_members_is_judged() -> None:
    result = judge([[1.0, 2.0], [3.0, 2.0]], [2.0, 1.0], {"t": [0.0, 1.0, 2.0], "m": [0.0, 0.0, 0.0]})
    assert result["error"] == pytest.approx(0.5**0.5)
    assert result["largest_error"] == 1.0
    assert result["simulations"] == 3
    with pytest.raises(ValueError, match="expected 2 predictions of each member; found 1"):
        judge([[1.0]], [1.0, 2.0], {"t": [0.0]})


GRID: Columns = {"simulations": [8, 16, 24, 32], "error": [0.5, 0.2, 0.05, 0.07]}
ACTIVE: Columns = {"simulations": [6, 8, 10], "error": [0.6, 0.3, 0.04]}


def test_both_counts_are_told_for_the_same_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(ACTIVE, GRID, 0.06, "grid") == {
        "active": 10,
        "other": 24,
        "active_at_least": 10,
        "at_least": 24,
        "ratio": 2.4,
    }
    printed = capsys.readouterr().out
    assert "chosen by the committee  10 simulations" in printed
    assert "grid                     24 simulations" in printed


def test_the_smallest_grid_counts_even_where_a_larger_one_is_worse() -> None:
    assert compare(ACTIVE, GRID, 0.055)["other"] == 24


def test_where_no_grid_is_good_enough_it_needs_more_than_the_largest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = compare(ACTIVE, GRID, 0.045)
    assert (result["other"], result["at_least"], result["ratio"]) == (None, 33, 3.3)
    assert "uniform grid             more than 32 simulations" in capsys.readouterr().out


def test_a_committee_that_fell_short_is_not_said_to_be_better(capsys: pytest.CaptureFixture[str]) -> None:
    result = compare(ACTIVE, GRID, 0.01)
    assert (result["active"], result["active_at_least"], result["ratio"]) == (None, 11, None)
    assert "chosen by the committee  more than 10 simulations" in capsys.readouterr().out


def test_a_curve_without_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="other: expected the columns simulations and error; found error"):
        compare(ACTIVE, {"error": [1.0]}, 0.1)
