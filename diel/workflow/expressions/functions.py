"""The operators and functions of expressions, and values as text. Each is fast and its result small."""

import ast
import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

from simpleeval import safe_add

from diel.base.errors import counted
from diel.base.values import BEYOND, is_finite, read_float
from diel.workflow.expressions.aggregates import AGGREGATES
from diel.workflow.expressions.gathered import (
    GatheredValues,
    ListText,
    UnplacedValues,
    align,
    is_list,
    noun,
    pointwise,
    refusal,
)
from diel.workflow.expressions.quantity import ComputationError, OperandMismatch, Quantity, size

SCALARS = (str, int, float, type(None))


def written(value: Any) -> str:
    """Return a value as text: true/false, nothing for null, shortest decimals, else JSON. Raise TypeError."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Quantity):
        return written(value.number)
    return json.dumps(plain(value), ensure_ascii=False)


def plain(value: Any) -> Any:
    """Return a value of a scope as plain JSON: paths are texts, sizes bytes, durations seconds."""
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, GatheredValues):
        return value.map(plain)
    if is_list(value):
        return [plain(item) for item in value]
    return value.number if isinstance(value, Quantity) else value


_NUMBERS = (int, float)
MAX_ITEMS = 10_000
"""Longest text or list that a repetition or a range can make."""
MAX_BITS = 4096
"""Largest whole number that a power or a product can make, in bits."""


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _multiply(first: Any, second: Any) -> Any:
    for many, times in ((first, second), (second, first)):
        if isinstance(many, str):
            return _repeated(many, times)
    if _bits(first) + _bits(second) > MAX_BITS:
        raise ComputationError("the result is too large")
    return first * second


def _repeated(many: Any, times: Any) -> Any:
    """Return a text or a literal list several times over."""
    if not isinstance(times, int):
        raise OperandMismatch(f"cannot multiply {noun(many)} by {noun(times)}")
    nested = not isinstance(many, str) and any(not isinstance(item, SCALARS) for item in many)
    if nested or times * len(many) > MAX_ITEMS:
        raise ComputationError("the repetition would be too large", "make it in a module")
    return many * times


def of_literals(kind: type[ast.AST], first: Any, second: Any) -> Any:
    """Compute with literal lists as Python does: `[0] * n`, `[1] + [2]`. Raise Undefined for all else."""
    if kind is ast.Mult:
        return _repeated(*(first, second) if is_list(first) else (second, first))
    return _concat(first, second) if kind is ast.Add else operate(kind, first, second)


def refuse_lists(*values: Any) -> None:
    """Raise Unfit where a list, which has no points, would be computed with."""
    for value in values:
        if not isinstance(value, _NUMBERS) and is_list(value):
            hint = "concat(a, b) puts lists together, along(list, axis) gives the items of one their points"
            raise OperandMismatch("cannot compute with a list: its items have no points", hint)


def _of_numbers(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(first: Any, second: Any) -> Any:
        refuse_lists(first, second)
        result = compute(first, second)
        if type(result) is float and math.isinf(result) and is_finite(first) and is_finite(second):
            raise ComputationError(f"the result is {BEYOND}")
        return result

    return computed


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and _bits(base) * abs(exponent) > MAX_BITS:
        raise ComputationError("the result is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise ComputationError("a fractional power of a negative number is not a real number")
    return result


def _modulo(first: Any, second: Any) -> Any:
    if isinstance(first, str):  # formatting could make a text of any length
        raise ComputationError("cannot take the remainder of a text", "put several ${{ }} into the text")
    return first % second


def _equal(first: Any, second: Any) -> Any:
    if is_list(first) != is_list(second) and first is not None and second is not None:
        hint = "compare an item, len(...), or along(list, axis); `in` looks for an item"
        raise OperandMismatch(f"{noun(first)} never equals {noun(second)}", hint)
    return first == second


OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _of_numbers(safe_add),
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(_multiply),
    ast.Div: _of_numbers(operator.truediv),
    ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(_modulo),
    ast.Pow: _of_numbers(_power),
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Eq: _equal,
    ast.NotEq: lambda left, right: not _equal(left, right),
    ast.Lt: _of_numbers(operator.lt),
    ast.LtE: _of_numbers(operator.le),
    ast.Gt: _of_numbers(operator.gt),
    ast.GtE: _of_numbers(operator.ge),
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}


def operate(kind: type[ast.AST], *values: Any) -> Any:
    """Apply an operator to values; to gathered ones at each point. Raise Undefined."""
    compute = OPERATORS[kind]
    try:
        for value in values if kind not in _WHOLE else values[:1]:
            if type(value) is GatheredValues:
                if kind in _WHOLE:
                    return value.map(lambda item: compute(item, values[1]))
                return pointwise(compute, values, of_null=kind in (ast.Eq, ast.NotEq))
        return compute(*values)
    except (TypeError, ValueError) as error:
        raise refusal(error, values) from None


_WHOLE = (ast.In, ast.NotIn)
"""Operators of which the last operand is taken as a whole: a container."""


def _range(*bounds: int) -> list[int]:
    numbers = range(*bounds)
    if len(numbers) > MAX_ITEMS:
        raise ComputationError(f"a range in an expression has at most {MAX_ITEMS:,} numbers", "use an axis")
    return list(numbers)


def _round(value: float, digits: int | None = None) -> Any:
    if digits is not None and abs(digits) > 400:  # beyond any float: Python would build 10**digits
        raise ComputationError("cannot round to so many digits")
    return round(value, digits)


def _where(values: Any, conditions: Any) -> list[Any]:
    """Return the values for which a condition holds at the same point, or place of a list."""
    gathered = isinstance(values, GatheredValues)
    if not (is_list(values) and is_list(conditions)):
        raise OperandMismatch(f"where: expected two lists, found {noun(values)} and {noun(conditions)}")
    if gathered != isinstance(conditions, GatheredValues):
        hint = "along(list, axis) gives the items of a list the points of an axis"
        raise OperandMismatch("where: the items of one list have points, those of the other have none", hint)
    picks: tuple[str, ...] = ()
    if gathered:
        chosen = (point for point, holds in zip(conditions.points, conditions, strict=True) if holds)
        picks = (*values.picks, f"where {hash(tuple(chosen))}")
        values, conditions = align([values, conditions])
    if len(values) != len(conditions):
        message = f"one list has {counted(len(values), 'item')}, the other {len(conditions)}"
        raise ComputationError(f"where: {message}", "gather both alike")
    places = [place for place, holds in enumerate(conditions) if holds and holds == holds]
    items = [values[place] for place in places]
    if not gathered:
        return UnplacedValues.of((values, conditions), items)
    return GatheredValues(items, values.axes, [values.points[place] for place in places], picks)


def _concat(*lists: Any) -> list[Any]:
    """Return the items of several lists, one after the other. They have no points any more."""
    for part in lists:
        if not is_list(part):
            raise OperandMismatch(f"concat: expected lists, found {noun(part)}", "write one item as [item]")
    return UnplacedValues.of(lists, [item for part in lists for item in part])


def along(values: Any, axis: str, places: Mapping[str, Sequence[int]]) -> GatheredValues:
    """Return the items of a list that one task made, each at a point of an axis. Raise Undefined."""
    if axis not in places:
        hint = f"it gathers over: {', '.join(places) or 'no axis'}"
        raise OperandMismatch(f"along: nothing is gathered over '{axis}' here", hint)
    if isinstance(values, GatheredValues) or not is_list(values):
        actual = "gathered values, which have their points" if is_list(values) else noun(values)
        raise OperandMismatch(f"along: expected a list that one task made, found {actual}")
    if isinstance(values, UnplacedValues):
        hint = "compute with gathered values as they are: they meet by point"
        raise OperandMismatch("along: the items of this list were gathered, and have lost their points", hint)
    points = [(place,) for place in places[axis]]
    if len(points) != len(values):
        actual = f"{counted(len(values), 'item')} at {counted(len(points), 'point')} of axis '{axis}'"
        raise ComputationError(f"along: {actual}", "make an item for each point")
    return GatheredValues(values, (axis,), points)


def _join(values: Any, between: str = " ") -> str:
    """Return the items as one text; items that are lists are rows, with blanks between their items."""
    if isinstance(values, GatheredValues):
        return ListText.of(values, lambda items: _join(items, between))
    if not is_list(values):
        raise OperandMismatch(
            f"join: expected a list, found {noun(values)}", "str(value) writes one value as a text"
        )
    if any(item is None for item in values):
        hint = "where(a.e, a.e != null) leaves it out, str(a.e) writes it"
        raise ComputationError("join: expected values, found null among them", hint)
    return str(between).join(_join(item) if is_list(item) else written(item) for item in values)


def _text(value: Any) -> str:
    return "null" if value is None else written(value)


_FORMAT = re.compile(r"[<>^=]?[-+ ]?0?\d{0,3}[,_]?(\.\d{1,3})?[bcdeEfgGnosxX%]?")


def _format(value: Any, form: str) -> str:
    """Return a value as Python's format writes it: `.6f`, `12.5e`, `05d`, `>10`."""
    if not (isinstance(form, str) and _FORMAT.fullmatch(form)):
        strange = repr(form) if isinstance(form, str) else noun(form)
        raise ComputationError(
            f"format: {strange} is no format", "write it as in '.6f', '12.5e', '05d' or '>10'"
        )
    if not isinstance(value, SCALARS):
        raise ComputationError(f"format: expected a number or a text, found {noun(value)}", "join a list")
    return format(written(value) if isinstance(value, bool) or value is None else value, form)


def _fortran(value: Any) -> str:
    """Return a value as Fortran's namelists read it: `1.0d-3`, `.true.`, `'text'`; a list with commas."""
    if isinstance(value, GatheredValues):
        return ListText.of(value, _fortran)
    if is_list(value):
        return ", ".join(map(_fortran, value))
    if isinstance(value, bool):
        return f".{written(value)}."
    if isinstance(value, float) and math.isfinite(value):
        mantissa, _, exponent = written(value).partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}d{int(exponent or 0)}"
    if isinstance(value, int):
        return written(value)
    if isinstance(value, str | PurePath):
        return "'" + written(value).replace("'", "''") + "'"
    if isinstance(value, float):
        hint = (
            "leave it out, by `when: abs(x) < 1e300` or where(a.e, abs(a.e) < 1e300), or write a case for it"
        )
        raise ComputationError(
            f"fortran: namelists have no form for {written(value)} that all compilers read", hint
        )
    raise ComputationError(f"fortran: expected a number, a text or a truth value, found {noun(value)}")


def _ordinary(value: Any) -> Any:
    """Return a value. Raise ValueError for a text such as `1_000`, which is no number elsewhere."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError(f"{value!r:.60} is no number")
    return value


_OF_MATH = (math.ceil, math.exp, math.floor, math.log, math.log10, math.log2, math.sqrt)
OF_ONE: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (abs, *_OF_MATH)},
    "int": lambda value, *base, **option: int(_ordinary(value), *base, **option),
    "float": lambda value: read_float(_ordinary(value)) if isinstance(value, str) else float(value),
    "format": _format,
    "range": _range,
    "round": _round,
}
"""Functions of one value: of gathered ones they give a value at each point."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **OF_ONE,
    **AGGREGATES,
    "along": along,
    "concat": _concat,
    "fortran": _fortran,
    "join": _join,
    "len": len,
    "size": size,
    "str": lambda value: ListText.of(value, written) if isinstance(value, GatheredValues) else _text(value),
    "where": _where,
}
"""The functions of expressions. Each is fast and its result small, whatever it is given."""
_USAGE = """
abs(number) all(list) along(list, axis) any(list) ceil(number) concat(list, ...) count(list) exp(number)
float(value) floor(number) format(value, form) fortran(value) int(value, base=10) join(list, between=' ')
len(list) log10(number) log(number, [base]) log2(number) max(value, ...) mean(list) median(list)
min(value, ...) nanmax(list) nanmean(list) nanmin(list) quantile(list, share) range(begin, [end], [step])
round(number, digits=0) size(file) sqrt(number) sorted(list, reverse=false) std(list, ddof=1) str(value)
sum(list, start=0) where(list, conditions)
"""
USAGE = {use.partition("(")[0]: use for use in re.findall(r"\w+\(.*?\)", _USAGE)}
"""How each is written: `...` stands for more arguments; `=` and brackets mark what can be left out."""


def call(name: str, values: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Call a function with values; with gathered ones at each point if it takes one value."""
    function = partial(FUNCTIONS[name], **options) if options else FUNCTIONS[name]
    if name in _PYTHON_TAKES_NULL and None in (*values[1:], *options.values()):
        raise refusal(TypeError(), [None], USAGE[name])
    if is_of_one(name, values):
        if any(isinstance(value, GatheredValues) for value in values):
            return pointwise(function, values, use=USAGE[name])
        if name in OF_ONE and any(map(is_list, values)):
            hint = "along(list, axis) gives the items of a list the points of an axis"
            raise OperandMismatch(f"{name}: expected one value, found a list", hint)
    try:
        return function(*values)
    except (TypeError, ValueError) as error:
        raise refusal(error, [*values, *options.values()], USAGE[name]) from None


_PYTHON_TAKES_NULL = ("join", "round", "sorted", "sum")
"""Functions that would do something of their own where an option is null."""


def is_of_one(name: str, values: Sequence[Any]) -> bool:
    """Return whether a function gives a value at each point of gathered ones."""
    return name in OF_ONE or (name in ("max", "min") and len(values) > 1)
