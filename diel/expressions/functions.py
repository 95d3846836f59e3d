"""The operators and functions of expressions, and values as text. Each is fast and its result small."""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from simpleeval import safe_add

from diel.errors import counted
from diel.expressions.gathered import Gathered, ListText
from diel.expressions.quantity import Quantity, Undefined, size

SCALARS = (str, int, float, type(None))


def written(value: Any) -> str:
    """A value as text: true/false, nothing for null, shortest decimals, JSON for the rest.

    Raises TypeError for what is neither JSON nor a path.
    """
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
    """A value of a scope as plain JSON: paths become text, sizes bytes, durations seconds, other mappings and
    lists dict and list."""
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Gathered):
        return value.map(plain)
    if is_list(value):
        return [plain(item) for item in value]
    return value.number if isinstance(value, Quantity) else value


def is_list(value: Any) -> bool:
    """Whether a value is a sequence of items: a list, or one that a scope reads on demand."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


MAX_ITEMS = 10_000
"""Longest text or list that a repetition or a range can make."""
MAX_BITS = 4096
"""Largest whole number that a power or a product can make, in bits."""


def noun(value: Any) -> str:
    """The kind of a value, in words."""
    if value is None:
        return "null"
    nouns = {bool: "a truth value", int: "a whole number", float: "a number", str: "a text"}
    if isinstance(value, Quantity):
        return str(value)
    return nouns.get(type(value), "a list" if is_list(value) else "a mapping")


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _add(left: Any, right: Any) -> Any:
    if is_list(left) and is_list(right):
        left, right = list(left), list(right)
    return safe_add(left, right)


def _multiply(left: Any, right: Any) -> Any:
    for many, times in ((left, right), (right, left)):
        if isinstance(many, str) or is_list(many):
            if not isinstance(times, int):
                raise Undefined(f"cannot multiply {noun(left)} by {noun(right)}")
            nested = not isinstance(many, str) and any(not isinstance(item, SCALARS) for item in many)
            if nested or times * len(many) > MAX_ITEMS:
                raise Undefined("the repetition would be too large", "make it in a module")
            return (many if isinstance(many, str) else list(many)) * times
    if _bits(left) + _bits(right) > MAX_BITS:
        raise Undefined("the result is too large")
    return left * right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and _bits(base) * abs(exponent) > MAX_BITS:
        raise Undefined("the result is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise Undefined("a fractional power of a negative number is not a real number")
    return result


def _modulo(left: Any, right: Any) -> Any:
    if isinstance(left, str):  # formatting could make a text of any length
        raise Undefined("cannot take the remainder of a text", "put several ${{ }} into the text")
    return left % right


OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: _modulo,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}


def _mean(values: Any) -> float:
    items = list(values)
    if not items:
        raise Undefined("an empty list has no mean")
    return math.fsum(items) / len(items)


def _range(*bounds: int) -> list[int]:
    numbers = range(*bounds)
    if len(numbers) > MAX_ITEMS:
        raise Undefined(f"a range in an expression has at most {MAX_ITEMS:,} numbers", "use an axis")
    return list(numbers)


def _round(value: float, digits: int | None = None) -> Any:
    if digits is not None and abs(digits) > 400:  # beyond any float; Python would build 10**digits
        raise Undefined("cannot round to so many digits")
    return round(value, digits)


def _where(values: Any, conditions: Any) -> list[Any]:
    if not (is_list(values) and is_list(conditions)):
        raise Undefined(f"where: expected two lists, found {noun(values)} and {noun(conditions)}")
    if len(values) != len(conditions):
        raise Undefined(
            f"where: one list has {counted(len(values), 'item')}, the other {len(conditions)}",
            "gather both alike",
        )
    return [value for value, holds in zip(values, conditions, strict=True) if holds]


def _join(values: Any, between: str = " ") -> str:
    """The items as one text; those that are lists themselves are rows, with blanks between their items."""
    if isinstance(values, Gathered):
        return ListText.of(values, lambda items: _join(items, between))
    if not is_list(values):
        raise Undefined(f"join: expected a list, found {noun(values)}")
    return str(between).join(_join(item) if is_list(item) else written(item) for item in values)


_FORMAT = re.compile(r"[<>^=]?[-+ ]?0?\d{0,3}[,_]?(\.\d{1,3})?[bcdeEfgGnosxX%]?")


def _format(value: Any, form: str) -> str:
    """A value as Python's format writes it: `.6f`, `12.5e`, `05d`, `>10`."""
    if not (isinstance(form, str) and _FORMAT.fullmatch(form)):
        raise Undefined(f"format: {form!r} is no format", "write it as in '.6f', '12.5e', '05d' or '>10'")
    if not isinstance(value, SCALARS):
        raise Undefined(f"format: expected a number or a text, found {noun(value)}", "join a list")
    return format(written(value) if isinstance(value, bool) or value is None else value, form)


def _fortran(value: Any) -> str:
    """A value as Fortran's namelists read it: `1.0d-3`, `.true.`, `'text'`; a list with commas."""
    if isinstance(value, Gathered):
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
    raise Undefined(f"fortran: expected a number, a text or a truth value, found {noun(value)}")


_BUILT_IN = (abs, all, any, float, int, len, max, min, sorted, sum)
_OF_MATH = (math.ceil, math.exp, math.floor, math.log, math.log10, math.log2, math.sqrt)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (*_BUILT_IN, *_OF_MATH)},
    "format": _format,
    "fortran": _fortran,
    "join": _join,
    "mean": _mean,
    "range": _range,
    "round": _round,
    "size": size,
    "str": lambda value: ListText.of(value, written) if isinstance(value, Gathered) else written(value),
    "where": _where,
}
"""The functions of expressions. Each is fast and its result small, whatever it is given."""
