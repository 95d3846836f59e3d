"""Ratios of pairs come with an interval that is honest about how few there are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from modules.analysis.paired import paired


def test_a_ratio_that_all_pairs_share_is_found_whatever_the_machine_did(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load = [1.0, 3.0, 2.0, 10.0]
    result = paired(load, [1.5 * value for value in load], name="speed")
    assert (result["ratio"], result["low"], result["high"]) == pytest.approx((1.5, 1.5, 1.5))
    assert capsys.readouterr().out.startswith("speed: 1.5, 95 % interval 1.5 to 1.5 (4 pairs)")


def test_the_interval_holds_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        result = paired([1.0] * 5, np.exp(0.2 + rng.normal(0, 0.3, 5)).tolist())
        held += result["low"] < math.exp(0.2) < result["high"]
    assert 0.92 < held / 400 < 0.98


def test_one_pair_says_nothing_of_its_scatter() -> None:
    result = paired([1.0], [2.0])
    assert result["ratio"] == 2.0
    assert result["low"] == 0.0
    assert result["high"] > 1e300


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0])])
def test_what_has_no_ratio_is_refused(first: list[float], second: list[float]) -> None:
    with pytest.raises(ValueError, match="two lists of one length, of numbers above 0"):
        paired(first, second)
