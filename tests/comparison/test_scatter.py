"""Rank tests and intervals, beside those of SciPy."""

from __future__ import annotations

import random

import pytest
from scipy import stats

from diel.observe.comparison.scatter import paired, unpaired


@pytest.mark.parametrize("count", [2, 6, 12, 25, 60, 500])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_pairs_are_tested_as_scipy_does(count: int, shift: float) -> None:
    draw = random.Random(count)
    differences = [draw.gauss(shift, 1) for _ in range(count)]
    method = "exact" if count <= 25 else "approx"
    theirs = stats.wilcoxon(differences, method=method, correction=True).pvalue
    assert paired(differences).p == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("m", "n"), [(1, 3), (4, 4), (8, 12), (20, 30), (300, 200)])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_samples_are_tested_as_scipy_does(m: int, n: int, shift: float) -> None:
    draw = random.Random(m)
    first, second = [draw.gauss(0, 1) for _ in range(m)], [draw.gauss(shift, 1) for _ in range(n)]
    method = "exact" if m + n <= 25 else "asymptotic"
    theirs = stats.mannwhitneyu(first, second, method=method).pvalue
    assert unpaired(first, second).p == pytest.approx(theirs, rel=1e-9)


def test_ties_share_their_ranks() -> None:
    first, second = [1.0, 1, 2, 2, 3] * 8, [2.0, 2, 3, 3, 4] * 8
    theirs = stats.mannwhitneyu(first, second, method="asymptotic").pvalue
    assert unpaired(first, second).p == pytest.approx(theirs, rel=1e-9)
    halves = [0.0, 0.5, 0.5, -0.5, 1, 1, 1] * 8
    theirs = stats.wilcoxon(halves, method="approx", correction=True).pvalue
    assert paired(halves).p == pytest.approx(theirs, rel=1e-9)


def test_few_values_tell_nothing_and_equal_ones_no_difference() -> None:
    assert not paired([0.5] * 5).can_tell
    assert paired([0.5] * 6).is_real
    assert not unpaired([1.0, 2, 3], [4.0, 5, 6]).can_tell
    assert unpaired([1.0, 2, 3, 4], [5.0, 6, 7, 8]).is_real
    assert paired([0.0] * 20).p == 1
    assert paired([0.25]).p is None


@pytest.mark.parametrize("count", [8, 40, 1000])
def test_an_interval_holds_the_true_shift_as_often_as_it_says(count: int) -> None:
    draw = random.Random(1)
    held = [0, 0]
    times = 100 if count < 1000 else 5
    for _ in range(times):
        first, second = [draw.gauss(0, 1) for _ in range(count)], [draw.gauss(1, 1) for _ in range(count)]
        pairs = paired([b - a for a, b in zip(first, second, strict=True)])
        for place, one in enumerate((pairs, unpaired(first, second))):
            assert one.low is not None
            assert one.high is not None
            held[place] += one.low <= 1 <= one.high
    assert all(share >= 0.8 * times for share in held)


def test_a_real_shift_is_what_its_interval_leaves_zero_out_of() -> None:
    draw = random.Random(3)
    for count in (6, 9, 15, 30, 80):
        for shift in (0.2, 0.6, 1.0):
            pairs = paired([draw.gauss(shift, 1) for _ in range(count)])
            assert pairs.low is not None
            assert pairs.high is not None
            assert pairs.is_real == (not pairs.low <= 0 <= pairs.high)
