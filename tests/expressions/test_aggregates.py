"""What several values are together: the same for any order, with NaN, with null, and for nothing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from tests.expressions.evaluating import failure, value

NAN = math.nan
BIG = 2**53
"""The first whole number whose next one no double holds."""


def same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other)) and type(one) is type(other)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("sum(v)", [3, NAN, 1], NAN),
        ("max(v)", [3, NAN, 1], NAN),
        ("min(v)", [3, NAN, 1], NAN),
        ("median(v)", [3, NAN, 1], NAN),
        ("quantile(v, 0.5)", [3, NAN, 1], NAN),
        ("std(v)", [3, NAN, 1], NAN),
        ("mean(v)", [3, NAN, None], None),
        ("max(v)", [3, None, 1], None),
        ("nanmin(v)", [3, NAN, 1, None], 1),
        ("nanmax(v)", [3, NAN, 1], 3),
        ("nanmean(v)", [3, NAN, 1], 2.0),
        ("nanmean(v)", [NAN, None], None),
        ("count(v)", [3, NAN, 1, None], 2),
        ("len(v)", [3, NAN, 1, None], 4),
        ("sum(v)", [0.1, 1e100, 0.2, -1e100], 0.30000000000000004),
        ("sum(v)", [math.inf, -math.inf, 1.0], NAN),
        ("sum(v)", [2**53 + 1, 2.0], 9007199254740996.0),
        ("sum(v)", [2**53 + 1, math.inf], math.inf),
        ("sum(v)", [2**53 + 1, -9007199254740992.0], 1.0),
        ("mean(v)", [1e16, 1.0, -1e16], 1 / 3),
        ("max(v)", [1, 1.0, True], 1),
        ("min(v)", [0.0, -0.0], -0.0),
        ("median(v)", [4, 1, 2, 3], 2.5),
        ("quantile(v, 0.25)", [4, 1, 2, 3], 1.75),
        ("quantile(v, 1)", [4, 1, 2], 4),
        ("std(v)", [1, 2, 3, 4], math.sqrt(5 / 3)),
        ("std(v, ddof=0)", [1, 2, 3, 4], math.sqrt(5 / 4)),
        ("std(v)", [7], None),
        ("std(v)", [1e16 + place for place in (2, 4, 6, 8, 10, 12)], math.sqrt(14)),
        ("std(v)", [0.1] * 6, 0.0),
        ("std(v)", [1e200, 2e200], 7.0710678118654756e199),
        ("std(v, ddof=0)", [-1.7e308, 1.7e308], 1.7e308),
        ("std(v)", [1e-200, 2e-200], 7.071067811865475e-201),
        ("std(v)", [1.0, math.inf], NAN),
        ("mean(v)", [2.0**1023] * 4, 2.0**1023),
        ("sum(v)", [1e308, 1e308, -1e308], 1e308),
        ("median(v)", [BIG + 1, BIG + 3], BIG + 2),
        ("median(v)", [2**70, 2**70 + 4], 2**70 + 2),
        ("median(v)", [-(10**400), 10**400], 0.0),
        ("quantile(v, 0.25)", [BIG + 1, BIG + 5], BIG + 2),
        ("quantile(v, 0.25)", [BIG + 1, BIG + 3, 0.5], float(BIG // 2 + 1)),
        ("quantile(v, 0.5)", [BIG + 1, math.inf], math.inf),
        ("mean(v)", [BIG + place for place in range(1, 6)], BIG + 3),
        ("mean(v)", [10**400, 10**400 + 2], 10**400 + 1),
        ("mean(v)", [BIG + 1, 1.0], float(BIG // 2 + 1)),
        ("mean(v)", [BIG + 1, math.inf], math.inf),
        ("nanmean(v)", [BIG + 1, BIG + 3, NAN], BIG + 2),
        ("nanmin(v)", [BIG + 1, BIG + 3, NAN], BIG + 1),
        ("std(v)", [BIG + 1, BIG + 3], math.sqrt(2)),
        ("std(v, ddof=0)", [2**70, 2**70 + 4], 2.0),
        ("all(v)", [True, NAN], None),
        ("all(v)", [False, None], False),
        ("any(v)", [True, None], True),
        ("any(v)", [False, None], None),
        ("max(v)", ["b", "a"], "b"),
        ("sum(v)", [], 0),
        ("len(v)", [], 0),
        ("count(v)", [], 0),
        ("mean(v)", [], None),
        ("min(v)", [], None),
        ("max(v)", [], None),
        ("max(v, default=7)", [], 7),
        ("median(v)", [], None),
        ("std(v)", [], None),
        ("sorted(v)", [], []),
        ("all(v)", [], True),
        ("any(v)", [], False),
    ],
)
def test_an_aggregate_is_the_same_for_any_order(text: str, values: list[Any], expected: Any) -> None:
    for order in itertools.permutations(values):
        found = value(text, {"v": list(order)})
        assert same(found, expected), (order, found)
        assert repr(found) == repr(expected)


def test_sorted_puts_nan_last_and_null_behind_it() -> None:
    for order in itertools.permutations([3, NAN, None, 1, 1.0]):
        assert repr(value("sorted(v)", {"v": list(order)})) == "[1, 1.0, 3, nan, None]"
    assert repr(value("sorted(v, reverse=true)", {"v": [NAN, 1, 2]})) == "[2, 1, nan]"


def test_of_several_values_nan_spreads_too() -> None:
    for text in ("max(x, 1)", "max(1, x)", "min(2, x, 1)"):
        assert math.isnan(value(text, {"x": NAN}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mean(3)", "mean: expected a list, found a whole number"),
        ("sum(['a'])", "sum: expected numbers, found a text among the values"),
        ("max([[1], [2]])", "max: expected numbers or texts, found a list among the values"),
        ("max([1, 'a'])", "max: numbers and texts have no common order"),
        ("sorted([1, 'a'])", "numbers and texts have no common order"),
        ("quantile([1], 90)", "quantile: expected a share from 0 to 1, found 90"),
        ("all(['no'])", "all: expected numbers, found a text among the values"),
    ],
)
def test_what_is_no_list_of_numbers_is_refused(text: str, told: str) -> None:
    assert told in str(failure(f"${{{{ {text} }}}}"))


def test_sizes_and_durations_are_added_compared_and_averaged() -> None:
    assert str(value("sum([1GiB, 512MiB])")) == "1.5 GiB"
    assert value("mean([1m, 2m]) / 1s") == 90
    assert value("max([1m, 2m]) / 1s") == 120
