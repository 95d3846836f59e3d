"""What several values are together: sums, means, extremes, the same for any order of the values.

NaN spreads: one makes an aggregate NaN. So does null, which stands for no value: one makes it null. What
begins with `nan` leaves both out, and `count` counts the rest.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from diel.workflow.expressions.gathered import UnplacedValues, is_list, noun
from diel.workflow.expressions.quantity import ComputationError, OperandMismatch, Quantity

Types = tuple[type, ...]
_PLAIN: Types = (int, float)
_NUMBERS: Types = (int, float, Quantity)
_EXACT = 2**53
"""Up to here a double holds each whole number."""
_ORDERED: Types = (*_NUMBERS, str)


def _items(name: str, values: Any, of: Types) -> list[Any]:
    """Return the values of a list. Raise Undefined for another value, or an item of none of these types."""
    if not is_list(values):
        hint = "it takes a list, or what is gathered over an axis"
        raise OperandMismatch(f"{name}: expected a list, found {noun(values)}", hint)
    for kind in set(map(type, values)):
        if not issubclass(kind, (*of, type(None))):
            strange = next(item for item in values if type(item) is kind)
            expected = "numbers or texts" if str in of else "numbers"
            raise OperandMismatch(f"{name}: expected {expected}, found {noun(strange)} among the values")
    return list(values)


def _there(items: Sequence[Any]) -> list[Any]:
    """Return the values that are neither null nor NaN."""
    return [item for item in items if item is not None and item == item]


def _aggregate(
    name: str, compute: Callable[..., Any], of: Types = _NUMBERS, *, leaving_out: bool = False
) -> Callable[..., Any]:
    """Return a function of a list that gives null for an empty one. `compute` gets no missing values."""

    def aggregate(values: Any, *options: Any, **more: Any) -> Any:
        items = _items(name, values, of)
        there = _there(items)
        if len(there) < len(items) and not leaving_out:
            return None if None in items else math.nan
        return compute(there, *options, **more) if there or compute is _total else None

    return aggregate


def _total(items: Sequence[Any], start: Any = 0) -> Any:
    """Return the sum, rounded once, so that the order of the values does not matter."""
    items = [start, *items] if start else items
    kinds = set(map(type, items))
    if Quantity in kinds:
        whole: Quantity = sum(items)  # a sum refuses other units
        return whole.of(math.fsum(summand.number for summand in items))
    if float not in kinds:
        return sum(items)
    infinite = {item for item in items if type(item) is float and math.isinf(item)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else math.nan
    if not _are_large(items):
        with suppress(OverflowError):  # of what was added before the rest
            return math.fsum(items)
    return float(sum(map(Fraction, items)))


def _are_large(items: Sequence[Any]) -> bool:
    """Return whether some of these numbers, all of them finite, may be held by no double."""
    large = any(type(item) is int and abs(item) > _EXACT for item in items)
    return large and math.inf not in map(abs, items)


def _rounded(value: Fraction, items: Iterable[Any]) -> float:
    """Return what was computed of some numbers; of large whole ones the nearest whole one."""
    return float(value) if abs(value) <= _EXACT or float in map(type, items) else round(value)


def _mean(items: Sequence[Any]) -> Any:
    if not _are_large(items):
        with suppress(OverflowError):  # of the sum
            return _total(items) / len(items)
    return _rounded(sum(map(Fraction, items)) / Fraction(len(items)), items)


def _deviation(items: Sequence[float], ddof: int = 1) -> float | None:
    """Return the standard deviation of a sample, or of all values with ddof=0; null for too few."""
    if len(items) <= ddof:
        return None
    if _are_large(items):
        from statistics import pstdev  # here: it loads much, for few

        return pstdev(items) * math.sqrt(len(items) / (len(items) - ddof))
    exponent = math.frexp(max(map(abs, items)))[1]  # the squares of 1e200 and of 1e-200 are no doubles
    scaled = [math.ldexp(item, -exponent) for item in items]
    center = _mean(scaled)
    apart = [item - center for item in scaled]
    rounding = math.fsum(apart) ** 2 / len(items)  # of the mean
    square = max(math.fsum(one**2 for one in apart) - rounding, 0.0) / (len(items) - ddof)
    return math.ldexp(math.sqrt(square), exponent)


def _in_order(items: Sequence[Any]) -> list[Any]:
    """Return the values in order; equal values of different types, as 1 and 1.0, by their text."""
    alike = set(map(type, items)) <= {str} or set(map(type, items)) <= {int}
    try:
        return sorted(items if alike else sorted(items, key=repr))
    except TypeError:
        raise ComputationError("numbers and texts have no common order") from None


def flaw_of_share(share: Any) -> str:
    """Say what is wrong with the share of a quantile; empty if nothing is."""
    number = isinstance(share, int | float) and not isinstance(share, bool)
    wrong = "" if number and 0 <= share <= 1 else str(share) if number else noun(share)
    return wrong and f"quantile: expected a share from 0 to 1, found {wrong}; as in quantile(a.e, 0.9)"


def _quantile(items: Sequence[Any], share: Any) -> Any:
    """Return the value below which a share of the values lies, interpolated between neighbours."""
    if flaw := flaw_of_share(share):
        raise ComputationError(*flaw.split("; "))
    ordered = _in_order(items)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    if place == below or ordered[below] == ordered[below + 1]:
        return ordered[below]
    pair, part = ordered[below : below + 2], place - below
    if _are_large(pair):
        low, high = map(Fraction, pair)
        return _rounded(low + (high - low) * Fraction(part), pair)
    return pair[0] * (1 - part) + pair[1] * part


def _extreme(name: str, pick: Callable[..., Any], *, leaving_out: bool = False) -> Callable[..., Any]:
    """Make `min` or `max` of a list or of several values."""

    def best(items: Sequence[Any]) -> Any:
        try:
            first = pick(items)
        except TypeError:
            raise ComputationError(f"{name}: numbers and texts have no common order") from None
        alike = [item for item in items if item == first]
        return first if len(alike) == 1 else _in_order(alike)[0]

    of_list = _aggregate(name, best, _ORDERED, leaving_out=leaving_out)

    def extreme(*values: Any, default: Any = None) -> Any:
        best = of_list(values[0] if len(values) == 1 else values)
        return default if best is None and len(values) == 1 and not values[0] else best

    return extreme


def _sorted(values: Any, reverse: bool = False) -> list[Any]:
    """Return the values in order, NaN after all numbers, and null last."""
    items = _items("sorted", values, _ORDERED)
    nans = [item for item in items if item is not None and item != item]
    ordered = _in_order(_there(items))[:: -1 if reverse else 1]
    return UnplacedValues.of([values], [*ordered, *nans, *[None] * items.count(None)])


def _truth(name: str, decisive: bool) -> Callable[[Any], bool | None]:
    """Make `any` or `all`: null where a value that is null or NaN could decide it."""

    def together(values: Any) -> bool | None:
        items = _items(name, values, _NUMBERS)
        there = _there(items)
        if any(bool(item) is decisive for item in there):
            return decisive
        return None if len(there) < len(items) else not decisive

    return together


AGGREGATES: dict[str, Callable[..., Any]] = {
    "all": _truth("all", decisive=False),
    "any": _truth("any", decisive=True),
    "count": lambda values: len(_there(_items("count", values, (object,)))),
    "max": _extreme("max", max),
    "mean": _aggregate("mean", _mean),
    "median": _aggregate("median", lambda items: _quantile(items, 0.5)),
    "min": _extreme("min", min),
    "nanmax": _extreme("nanmax", max, leaving_out=True),
    "nanmean": _aggregate("nanmean", _mean, leaving_out=True),
    "nanmin": _extreme("nanmin", min, leaving_out=True),
    "quantile": _aggregate("quantile", _quantile),
    "sorted": _sorted,
    "std": _aggregate("std", _deviation, _PLAIN),
    "sum": _aggregate("sum", _total),
}
"""Functions of a list, and of what was gathered; `min` and `max` also of several values."""
