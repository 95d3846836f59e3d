"""Expressions over numbers as Python functions, for what is evaluated at each of a million points.

The units of sizes and durations are worked out once, so that the function computes with plain numbers. It
gives what `Expression.value` gives; an expression with anything else in it is not compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from diel.expressions.expression import chain_of
from diel.expressions.functions import FUNCTIONS, OPERATORS
from diel.expressions.quantity import Quantity
from diel.expressions.template import Template

Unit = tuple[int, int]
_NONE: Unit = (0, 0)
_ALIKE = ("abs", "ceil", "floor", "max", "min")
"""Functions whose value has the unit of their arguments."""
_BARE = ("exp", "float", "int", "log", "log10", "log2", "round", "sqrt")


class Compiled(NamedTuple):
    """A function of rows of parameters, which gives a value for each, and the unit of these."""

    function: Callable[[Iterable[tuple[Any, ...]]], list[Any]]
    unit: Unit | None
    """None for a function that gives values as expressions have them."""

    def whole(self, number: Any) -> Any:
        """A value of the function as an expression has it."""
        return Quantity(number, *self.unit) if self.unit and any(self.unit) else number


class _Unfit(Exception):
    """The expression holds something that is no plain computation."""


def compiled(
    template: Template, parameters: Mapping[tuple[str, ...], str], scope: Mapping[str, Any]
) -> Compiled | None:
    """A template as a function of rows of numbers; None where it cannot be one.

    `parameters` gives the places in a row, as x0, x1, …, by the dotted names that they stand for; other names
    have the values of `scope`.
    """
    whole = template.whole
    if whole is None:
        return None
    row = "".join(f"{one}, " for one in dict.fromkeys(parameters.values()))
    tree = ast.parse(".".join(whole.chain), mode="eval").body if whole.tree is None else whole.tree
    compiler = _Compiler(parameters, scope)
    try:
        logical = isinstance(tree, ast.Compare | ast.BoolOp) or (
            isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
        )
        unit, body = (_NONE, compiler.condition(tree)) if logical else compiler.take(tree)
    except _Unfit:
        return None
    # From nodes that were checked one by one: numbers, the parameters, operators and these functions.
    functions = {**FUNCTIONS, "max": max, "min": min, "_power": OPERATORS[ast.Pow], "__builtins__": {}}
    text = f"lambda rows: [{ast.unparse(body)} for ({row}) in rows]"
    return Compiled(eval(text, functions), unit)  # noqa: S307 - see above


class _Compiler:
    def __init__(self, parameters: Mapping[tuple[str, ...], str], scope: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self._scope = scope

    def take(self, node: ast.expr) -> tuple[Unit, ast.expr]:
        """The unit of a node, and the node with plain numbers. Raises _Unfit."""
        chain = chain_of(node)
        if chain is not None:
            return self._name(chain)
        match node:
            case ast.Constant(value=value):
                return _constant(value)
            case ast.BinOp():
                return self._operation(node)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                unit, operand = self.take(node.operand)
                return unit, ast.UnaryOp(node.op, operand)
            case ast.IfExp():
                (unit, body), (other, rest) = self.take(node.body), self.take(node.orelse)
                return _same(unit, other), ast.IfExp(self.condition(node.test), body, rest)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if args:
                return self._call(name, [self.take(one) for one in args])
        raise _Unfit

    def _name(self, chain: tuple[str, ...]) -> tuple[Unit, ast.expr]:
        if chain in self._parameters:
            return _NONE, ast.Name(self._parameters[chain], ast.Load())
        value: Any = self._scope
        for name in chain:
            if not isinstance(value, Mapping) or name not in value:
                raise _Unfit
            value = value[name]
        return _constant(value)

    def _operation(self, node: ast.BinOp) -> tuple[Unit, ast.expr]:
        (left, a), (right, b) = self.take(node.left), self.take(node.right)
        made = ast.BinOp(a, node.op, b)
        match node.op:
            case ast.Add() | ast.Sub() | ast.Mod():
                return _same(left, right), made
            case ast.Mult():
                return (left[0] + right[0], left[1] + right[1]), made
            case ast.Div():
                return (left[0] - right[0], left[1] - right[1]), made
            case ast.FloorDiv() if right == _NONE:
                return left, made
            case ast.Pow() if left == right == _NONE:
                return _NONE, _called("_power", [a, b])
        raise _Unfit

    def _call(self, name: str, arguments: list[tuple[Unit, ast.expr]]) -> tuple[Unit, ast.expr]:
        unit = arguments[0][0]
        for other, _ in arguments:
            _same(unit, other)
        if name in ("max", "min") and len(arguments) < 2:
            raise _Unfit
        if name not in _ALIKE and (name not in _BARE or unit != _NONE):
            raise _Unfit
        return unit, _called(name, [node for _, node in arguments])

    def condition(self, node: ast.expr) -> ast.expr:
        """A node of which only the truth counts, with plain numbers. Raises _Unfit."""
        match node:
            case ast.BoolOp():
                return ast.BoolOp(node.op, [self.condition(one) for one in node.values])
            case ast.UnaryOp(op=ast.Not()):
                return ast.UnaryOp(node.op, self.condition(node.operand))
            case ast.Compare() if not any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
                unit, left = self.take(node.left)
                rest = [self.take(one) for one in node.comparators]
                for other, _ in rest:
                    _same(unit, other)
                return ast.Compare(left, node.ops, [one for _, one in rest])
        return self.take(node)[1]


def _constant(value: Any) -> tuple[Unit, ast.expr]:
    if isinstance(value, Quantity):
        return (value.size, value.time), ast.Constant(value.number)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit
    return _NONE, ast.Constant(value)


def _called(name: str, arguments: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), arguments, [])


def _same(one: Unit, other: Unit) -> Unit:
    if one != other:
        raise _Unfit
    return one
