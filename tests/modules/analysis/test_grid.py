"""States on a uniform grid."""

from __future__ import annotations

import pytest

from modules.analysis.grid import grid


def test_both_ends_are_on_the_grid_and_steps_are_even() -> None:
    result = grid({"t": [1.0, 3.0]}, 5)
    assert result["columns"] == {"t": [1.0, 1.5, 2.0, 2.5, 3.0]}
    assert result["states"][1] == {"t": 1.5}
    assert result["count"] == 5


def test_the_last_parameter_varies_fastest_in_rows_and_columns_alike() -> None:
    result = grid({"t": [0.0, 1.0], "h": [5.0, 7.0]}, 3)
    assert result["count"] == 9
    assert result["states"][:4] == [
        {"t": 0.0, "h": 5.0},
        {"t": 0.0, "h": 6.0},
        {"t": 0.0, "h": 7.0},
        {"t": 0.5, "h": 5.0},
    ]
    assert result["columns"]["h"] == [state["h"] for state in result["states"]]


def test_the_upper_end_is_met_exactly() -> None:
    assert grid({"t": [0.1, 0.7]}, 11)["columns"]["t"][-1] == pytest.approx(0.7, abs=1e-15)
