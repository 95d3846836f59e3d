"""States drawn at random."""

from __future__ import annotations

from modules.analysis.draw import draw


def test_states_lie_within_their_ranges_twice_told() -> None:
    result = draw({"x": [1.0, 2.0], "y": [-3.0, -2.5]}, 200, 7)
    assert result["states"] == [
        {"x": x, "y": y} for x, y in zip(result["columns"]["x"], result["columns"]["y"], strict=True)
    ]
    assert len(result["states"]) == 200
    assert 1.0 <= min(result["columns"]["x"]) < 1.1 < 1.9 < max(result["columns"]["x"]) <= 2.0
    assert -3.0 <= min(result["columns"]["y"]) < max(result["columns"]["y"]) <= -2.5


def test_a_seed_draws_the_same_and_another_one_others() -> None:
    ranges = {"x": [0.0, 1.0]}
    assert draw(ranges, 5, 1) == draw(ranges, 5, 1)
    assert draw(ranges, 5, 1) != draw(ranges, 5, 2)
