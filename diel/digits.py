"""Numbers as people read them: as many digits as tell those apart that stand beside each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

LEAST = 6
"""The fewest significant digits of a float, where fewer tell it apart too."""
MOST = 17
"""Digits that tell any two doubles apart; a text of so many is the shortest that gives the same float."""
_LARGEST = 1.7e308


def column_digits(columns: Sequence[Iterable[Any]], least: int = LEAST) -> list[int]:
    """Return how many significant digits tell the numbers of each column from all others of the columns.

    What is no finite number is passed over.
    """
    owners: dict[float, set[int]] = {}
    for place, column in enumerate(columns):
        for value in column:
            if type(value) in (int, float) and abs(value) < _LARGEST:
                owners.setdefault(float(value), set()).add(place)
    digits = [least] * len(columns)
    for low, high in pairwise(sorted(owners)):
        for place in owners[low] | owners[high]:
            while digits[place] < MOST and f"{low:.{digits[place]}g}" == f"{high:.{digits[place]}g}":
                digits[place] += 1
    return digits


def digits_apart(numbers: Iterable[Any], least: int = LEAST) -> int:
    """Return how many significant digits tell these numbers apart."""
    return column_digits([numbers], least)[0]


def number_text(number: float, digits: int = MOST) -> str:
    """Return a float in so many significant digits, without zeros at its end; whole numbers keep all."""
    text = repr(number) if digits >= MOST or not math.isfinite(number) else f"{number:.{digits}g}"
    whole = abs(number) < 1e15 and number == int(number)
    return f"{number:.0f}" if whole and float(text) != number else text


def grouped_text(number: float, digits: int = MOST) -> str:
    """Return a number as text, with commas between thousands from five digits on."""
    if not 1e4 <= abs(number) < 1e15:
        return number_text(number, digits)
    if digits >= MOST:
        return f"{number:,}".removesuffix(".0")
    after = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:,.{after}f}"
    return text.rstrip("0").rstrip(".") if after else text


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None]) -> str:
    """Return bars from the least value to the most; a dot where there is none, a cross for no finite one."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    bars = {value: _BARS[round((value - low) * scale) if scale else 3] for value in finite}
    return "".join("·" if value is None else bars.get(value, "×") for value in values)


def texts_apart(numbers: Sequence[float], least: int = LEAST) -> list[str]:
    """Return the texts of numbers that stand beside each other."""
    digits = digits_apart(numbers, least)
    return [number_text(number, digits) for number in numbers]
