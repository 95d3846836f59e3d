"""Numbers as people read them: digits that tell those apart that stand beside each other."""

from __future__ import annotations

import math
from typing import Any

import pytest

from diel.base.values import column_digits, digits_apart, grouped_text, number_text, texts_apart


class TestApart:
    @pytest.mark.parametrize(
        ("numbers", "expected"),
        [
            ([0.1, 0.25], ["0.1", "0.25"]),
            ([-12345.6789], ["-12345.7"]),
            ([-12345.6789, -12345.6788], ["-12345.6789", "-12345.6788"]),
            ([1.0, 1.0], ["1", "1"]),
            ([0.3, 0.1 + 0.2], ["0.3", "0.30000000000000004"]),
            ([1e-300, 1.0000001e-300], ["1e-300", "1.0000001e-300"]),
            ([1234567.0], ["1234567"]),
            ([1e22], ["1e+22"]),
            ([math.nan, math.inf, 2.5], ["nan", "inf", "2.5"]),
            ([1.7976931348623157e308, -1.0], ["1.79769e+308", "-1"]),
        ],
    )
    def test_distinct_numbers_have_distinct_texts(self, numbers: list[float], expected: list[str]) -> None:
        assert texts_apart(numbers) == expected

    def test_numbers_of_two_columns_are_told_apart_too(self) -> None:
        near: list[list[Any]] = [[-12345.6789, None], [-12345.6788, "text"], [True, 0.5]]
        assert column_digits(near) == [9, 9, 6]

    def test_seventeen_digits_are_the_most(self) -> None:
        assert digits_apart([1.0, math.nextafter(1.0, 2.0), 10**400]) == 17
        assert number_text(0.1) == "0.1"


class TestGroupedText:
    @pytest.mark.parametrize(
        ("number", "digits", "expected"),
        [
            (0.0, 5, "0"),
            (1234.5678, 5, "1234.6"),
            (-12345.6789, 5, "-12,346"),
            (-12345.6789, 9, "-12,345.6789"),
            (-12345.6789, 17, "-12,345.6789"),
            (20000.0, 5, "20,000"),
            (1e18, 5, "1e+18"),
        ],
    )
    def test_thousands_are_apart(self, number: float, digits: int, expected: str) -> None:
        assert grouped_text(number, digits) == expected
