"""Gathered values: each keeps its point, so that values meet by point and never by position."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from operator import itemgetter
from typing import Any

from diel.workflow.expressions.quantity import ComputationError, NullOperand, OperandMismatch, Quantity

Point = tuple[int, ...]
"""The place of a value: the number of a point of each axis, in the order of the axes."""


class GatheredValues(list[Any]):
    """The values of several tasks along axes, each with its point. It is a list, so that what only counts or
    shows values needs to know nothing of it. A slice keeps the points; a key is read of each value."""

    __slots__ = ("axes", "picks", "points")

    def __init__(
        self,
        values: Iterable[Any],
        axes: tuple[str, ...],
        points: Sequence[Point],
        picks: tuple[str, ...] = (),
    ) -> None:
        """Gather values. `points`: a tuple for each, with a number for each axis; else raise ValueError.
        `picks` says what chose these points, as the best five of a search, a slice or a condition."""
        super().__init__(values)
        if len(points) != len(self):
            raise ValueError(f"{len(self)} values at {len(points)} points")
        self.axes = axes
        self.points = points
        self.picks = picks

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.map(lambda item: None if item is None else item[key])
        item = super().__getitem__(key)
        if isinstance(key, slice):
            step = key.step or 1
            start = 0 if key.start is None and step > 0 else key.start
            part = f"{start}:{key.stop}:{step}"  # [:2] and [0:2:1] are one
            return GatheredValues(item, self.axes, self.points[key], (*self.picks, part))
        return item

    def place_text(self, place: int) -> str:
        """Return where a value is: `, at point 1 of x`."""
        pairs = zip(self.points[place], self.axes, strict=True)
        return ", at point " + ", ".join(f"{number} of {axis}" for number, axis in pairs)

    def map(self, function: Callable[[Any], Any]) -> "GatheredValues":
        """Return a function's result for each value, at the same points."""
        return GatheredValues(map(function, self), self.axes, self.points, self.picks)


class UnplacedValues(list[Any]):
    """A list that was made of gathered values: its items have lost their points, and get no others."""

    def __getitem__(self, key: Any) -> Any:
        item = super().__getitem__(key)
        return UnplacedValues(item) if isinstance(key, slice) else item

    @classmethod
    def of(cls, sources: Iterable[Any], items: list[Any]) -> list[Any]:
        """Return a list as it is, or as such a one if a source had points or has lost them."""
        return cls(items) if any(isinstance(source, GatheredValues | cls) for source in sources) else items


class ListText(str):
    """A text that was written of gathered values, so that it can be written again of fewer."""

    source: GatheredValues
    write: Callable[[Sequence[Any]], str]

    @classmethod
    def of(cls, source: GatheredValues, write: Callable[[Sequence[Any]], str]) -> "ListText":
        """Write gathered values."""
        text = cls(write(list(source)))
        text.source, text.write = source, write
        return text


def align(values: Sequence[GatheredValues]) -> Sequence[GatheredValues]:
    """Join values at the points that all have, in the order of the one with most axes; those with fewer axes
    repeat. Raise Undefined where one has an axis that these lack."""
    wide = max(values, key=lambda value: len(value.axes))
    if all(value.axes == wide.axes and value.points == wide.points for value in values):
        return values
    tables = [dict(zip(value.points, value, strict=True)) for value in values]
    keys = [list(map(_part(value, wide), wide.points)) for value in values]
    have = (map(table.__contains__, places) for table, places in zip(tables, keys, strict=True))
    common = list(map(all, zip(*have, strict=True)))
    points = list(compress(wide.points, common))
    columns = (map(t.__getitem__, compress(at, common)) for t, at in zip(tables, keys, strict=True))
    picks = next((value.picks for value in values if value.picks), ())
    return [GatheredValues(column, wide.axes, points, picks) for column in columns]


def _part(narrow: GatheredValues, wide: GatheredValues) -> Callable[[Point], Point]:
    """Return a function from the point of a value with more axes to that of this one."""
    if narrow.axes == wide.axes:
        return lambda point: point
    alone = [axis for axis in narrow.axes if axis not in wide.axes]
    if alone:
        axes = f"{', '.join(narrow.axes)} and over {', '.join(wide.axes)}"
        hint = "reduce one of them first, with mean() or sum() for instance"
        raise OperandMismatch(f"values gathered over {axes} have no points in common", hint)
    places = [wide.axes.index(axis) for axis in narrow.axes]
    if len(places) == 1:
        place = places[0]
        return lambda point: (point[place],)
    return itemgetter(*places)


def pointwise(
    function: Callable[..., Any], values: Sequence[Any], *, of_null: bool = False, use: str = ""
) -> GatheredValues:
    """Return a function's result at each point that all gathered values have; null where one is null, unless
    the function takes it. Raise Undefined with the point where it fails; `use` is as in `refusal`."""
    met = align([value for value in values if isinstance(value, GatheredValues)])
    rest = iter(met)
    columns = [next(rest) if isinstance(value, GatheredValues) else repeat(value) for value in values]
    results: list[Any] = []
    try:
        for row in zip(*columns, strict=False):  # one value is repeated without end
            results.append(None if not of_null and None in row else function(*row))
    except (ArithmeticError, LookupError, TypeError, ValueError, ComputationError) as error:
        why = refusal(error, row, use)
        raise type(why)(f"{why.message}{met[0].place_text(len(results))}", why.hint) from None
    return GatheredValues(results, met[0].axes, met[0].points, met[0].picks)


def truth(value: Any) -> bool:
    """Return whether a value counts as true. Raise Unfit for one at each point, NullOperand for null."""
    if isinstance(value, GatheredValues):
        message = f"one truth is needed here, and this is a value for each point of {', '.join(value.axes)}"
        raise OperandMismatch(message, "write all(...), any(...), or compare mean(...)")
    if value is None:
        raise NullOperand("null is neither true nor false")
    return bool(value)


def is_list(value: Any) -> bool:
    """Return whether a value is a sequence of items: a list, or one that a scope reads on demand."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def noun(value: Any) -> str:
    """Return the kind of a value, in words."""
    if value is None or isinstance(value, Quantity):
        return "null" if value is None else str(value)
    nouns = {bool: "a truth value", int: "a whole number", float: "a number", str: "a text"}
    if type(value) not in nouns and isinstance(value, str):
        return "a text" if isinstance(value, ListText) else "a file"
    return nouns.get(type(value), "a list" if is_list(value) else "a mapping")


def refusal(error: Exception, values: Sequence[Any], use: str = "") -> ComputationError:
    """Return why a computation with values failed; `use` is how its function is written."""
    if isinstance(error, ComputationError):
        return error
    kind: type[ComputationError] = OperandMismatch
    name, hint = f"{use.partition('(')[0]}: " * bool(use), f"write {use}" * bool(use)
    if isinstance(error, TypeError) and any(value is None for value in values):
        kind, shown = NullOperand, ["null"]
    elif isinstance(error, TypeError):
        shown = [*map(noun, values)]
        hint = hint or "str(n) makes a text of a number, float(t) a number of a text" * ("a text" in shown)
    elif isinstance(error, ValueError) and not any(word in str(error) for word in ("domain", "beyond")):
        kind, shown = ComputationError, ["null" if value is None else repr(value) for value in values]
    else:
        return ComputationError(readable(error))
    return kind(f"{name}cannot compute with {' and '.join(shown) or 'nothing':.80}", hint)


def readable(error: Exception) -> str:
    """Return the error of a computation in words of the field."""
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, OverflowError):
        return "the result is too large"
    if isinstance(error, ValueError) and "domain" in str(error):
        return "the argument is outside the function's domain"
    return "values of these kinds do not go together" if isinstance(error, TypeError) else str(error)
