"""Sizes and durations in expressions: `2GiB * n`, `1h30m`. They keep their unit through a computation.

A quantity is a number with powers of bytes and of seconds: a size over a rate is a duration.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from diel.base.errors import HintedError
from diel.base.values import format_duration, format_size, parse_duration, parse_size

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_LITERAL = (
    rf"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
    rf"|(?<![\w.])(?:(?P<size>{_NUMBER}\s?(?:[kKMGTP]i?)?B)|(?P<duration>(?:{_NUMBER}(?:ms|s|m|h|d))+))(?![\w.])"
)
"""Compiled when an expression has one, for it takes a while."""


class ComputationError(HintedError):
    """A computation that was refused, with the reason."""


class NullOperand(ComputationError):
    """A computation or a choice that null stops, for it stands for no value."""


class OperandMismatch(ComputationError):
    """A computation with values of kinds, or over axes, that do not go together, whatever the values are."""


def _of_same_unit(compute: Callable[..., float]) -> "Callable[..., Quantity]":
    return lambda self, *options: self.of(compute(self.number, *options))


@total_ordering
@dataclass(frozen=True, repr=False)
class Quantity:
    """A size, a duration, or what became of them: a rate, an area."""

    number: float
    """In bytes and seconds."""
    size: int = 0
    """The power of bytes."""
    time: int = 0
    """The power of seconds."""

    def __post_init__(self) -> None:
        """Raise Undefined for what is infinite or no number, and OverflowError for what no float holds."""
        if not math.isfinite(self.number):
            raise ComputationError(
                f"the size or duration is {self.number}", "look at its divisors and factors"
            )

    @property
    def text(self) -> str:
        """As a workflow file writes it: `512B`, `90.0s`."""
        if (self.size, self.time) == (1, 0):
            return f"{self.number:.0f}B"
        return f"{self.number}s" if (self.size, self.time) == (0, 1) else str(self)

    def __str__(self) -> str:
        if (self.size, self.time) == (1, 0):
            return format_size(self.number)
        if (self.size, self.time) == (0, 1):
            return format_duration(self.number)
        units = zip(("bytes", "seconds"), (self.size, self.time), strict=True)
        return f"{self.number:g} {'·'.join(f'{u}^{p}' if p != 1 else u for u, p in units if p)}"

    def __repr__(self) -> str:
        return str(self) if self.size or self.number >= 1 else self.text

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Quantity):
            return _measure(self.number * other.number, self.size + other.size, self.time + other.time)
        return _measure(self.number * _plain(other), self.size, self.time)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Quantity):
            return _measure(self.number / other.number, self.size - other.size, self.time - other.time)
        return _measure(self.number / _plain(other), self.size, self.time)

    def __rtruediv__(self, other: Any) -> Any:
        return _measure(_plain(other) / self.number, -self.size, -self.time)

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, Quantity):
            return math.floor(self / _alike(self, other))
        return _measure(self.number // _plain(other), self.size, self.time)

    def __mod__(self, other: Any) -> Any:
        return self.of(self.number % _alike(self, other).number)

    def __add__(self, other: Any) -> Any:
        return self.of(self.number + _alike(self, other).number)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.of(self.number - _alike(self, other).number)

    def __rsub__(self, other: Any) -> Any:
        return self.of(_alike(self, other).number - self.number)

    def __lt__(self, other: Any) -> bool:
        return self.number < _alike(self, other).number

    def __bool__(self) -> bool:
        return bool(self.number)

    __neg__, __pos__ = _of_same_unit(operator.neg), _of_same_unit(operator.pos)
    __abs__, __round__ = _of_same_unit(abs), _of_same_unit(round)
    __ceil__, __floor__ = _of_same_unit(math.ceil), _of_same_unit(math.floor)

    def __float__(self) -> float:
        raise ComputationError(
            f"{self} is no plain number", f"divide it first: x / {'1GiB' if self.size else '1s'}"
        )

    __int__ = __index__ = __float__

    def of(self, number: float) -> "Quantity":
        """Return another number of the same unit."""
        return Quantity(number, self.size, self.time)


def _measure(number: float, size: int, time: int) -> Any:
    return Quantity(number, size, time) if size or time else number


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _alike(mine: Quantity, other: Any) -> Quantity:
    if isinstance(other, Quantity) and (mine.size, mine.time) == (other.size, other.time):
        return other
    if not isinstance(other, Quantity | int | float):
        raise TypeError
    if type(other) is int and other == 0:  # where a sum begins
        return mine.of(0)
    pair = f"{other!r} and {mine!r}" if isinstance(other, Quantity) else f"{mine!r} and a plain number"
    hint = "a size goes with a size, a duration with a duration; divide, or multiply by a unit such as 1s"
    raise OperandMismatch(f"cannot compare, add or subtract {pair}", hint)


def literals(text: str) -> tuple[str, dict[int, Quantity]]:
    """Return the text with names as long for sizes and durations, and these by place. Raise ValueError."""
    quantities: dict[int, Quantity] = {}

    def name(match: re.Match[str]) -> str:
        if match["size"] is None and match["duration"] is None:
            return match[0]
        size = match["size"] is not None
        read: Callable[[str], float] = parse_size if size else parse_duration
        quantities[match.start()] = Quantity(read(match[0]), int(size), int(not size))
        return "_" * len(match[0])

    return re.sub(_LITERAL, name, text), quantities


def size(value: Any) -> Quantity:
    """Return bytes of a file or directory that is read; of a gathered list the sum."""
    return Quantity(sum(_sizes(value)), 1)


def _sizes(value: Any) -> Iterator[int]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _sizes(item)
        return
    try:
        size = getattr(value, "bytes", None)
    except OSError as error:
        raise ComputationError(f"size: {value} cannot be read: {error.strerror}") from None
    if not isinstance(size, int):
        hint = "write size(inputs.NAME) or size(STAGE.OUTPUT) of a file, or size(files.NAME)"
        shown = "null" if value is None else str(value)
        raise ComputationError(f"size: expected a file or a directory, found {shown:.60}", hint)
    yield size
