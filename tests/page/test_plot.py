"""What plots share: digits of ticks and of what a pointer shows."""

from __future__ import annotations

from typing import Any

from diel.ui.page.plot import Column, chart, tips


def test_all_that_shares_an_axis_shares_its_ticks_and_what_is_equal_needs_few_digits() -> None:
    y, best = Column("y", "y", "number"), Column("best", "best", "number")
    rows = [{"y": -12345.6789 + 1e-6 * place, "best": -12345.6789} for place in range(3)]
    layers: list[dict[str, Any]] = [
        {"mark": "point", "encoding": {"y": y.axis(), "tooltip": tips([y, best])}},
        {"mark": "line", "encoding": {"y": y.axis(field="best")}},
        {"mark": "rule", "encoding": {"y": y.axis(axis=None)}},
    ]
    made = chart([y, best], rows, *layers)["layer"]
    assert [one["encoding"]["y"]["axis"] for one in made] == [{"format": ".13~g"}, {"format": ".13~g"}, None]
    assert [one["format"] for one in made[0]["encoding"]["tooltip"]] == [".11~g", ".5~g"]


def test_whole_numbers_keep_all_digits() -> None:
    seed = Column("seed", "seed", "number")
    rows = [{"seed": 1234567}, {"seed": 2234567}]
    made = chart([seed], rows, {"mark": "point", "encoding": {"x": seed.axis(), "tooltip": tips([seed])}})
    assert made["encoding"]["tooltip"][0]["format"] == ".7~g"
