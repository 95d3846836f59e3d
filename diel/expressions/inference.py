"""What can be known of an expression before a run, by computing it with one value of each kind.

Gathered values have one point here. What fails because of the kinds of values, or of the axes over which they
are gathered, fails whatever the values are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from typing import Any

from diel.expressions.expression import JOINT, PLACES, Chain, Evaluator, Expression, ExpressionError, chain_of
from diel.expressions.functions import OF_ONE, SCALARS, call, is_of_one, operate, refuse_lists
from diel.expressions.gathered import Gathered, Unplaced, is_list, pointwise, truth
from diel.expressions.quantity import Undefined, Unfit


class Unknown:
    """A value of which nothing is known, as what is in it."""

    def __getitem__(self, key: object) -> Unknown:
        return self


VALUE = Unknown()
"""One value of any kind, which is not gathered."""
UNKNOWN = Unknown()
"""A value that may be gathered."""
SAMPLES: Mapping[str, Any] = {
    **dict(zip(("int", "float", "bool", "str", "file"), (1, 1.5, True, "x", "x"), strict=True)),
    **{kind: [VALUE] for kind in ("list", "files")},
}
"""A value of each kind of output."""


def gathered(value: Any, axes: tuple[str, ...]) -> Any:
    """Return a value as it is where it is gathered over axes."""
    return Gathered([value], axes, [(0,) * len(axes)]) if axes else value


def infer(one: Expression, known: Callable[[Chain], Any], places: Collection[str]) -> Any:
    """Return what an expression gives of known values. Raises ExpressionError at the part that fails.

    `known` has a value for a dotted name, `places` are the axes along which values are gathered.
    """
    if one.tree is None:
        return known(one.chain)
    try:
        return _Inference(known, places).run(one.tree, {})
    except _At as error:
        node, cause = error.args
        before = one.source.encode()[: node.col_offset].decode(errors="ignore")
        shown = ast.unparse(node).replace(JOINT, ".")
        message = getattr(cause, "message", str(cause)).partition(", at point ")[0]
        message = f"{message}, in {shown if len(shown) <= 60 else shown[:57] + '...'}"
        raise ExpressionError(message, one.offset + len(before), getattr(cause, "hint", "")) from None


class _At(Exception):
    """A node, and why it fails."""


class _Inference(Evaluator):
    """Computes with samples. Conditions hold, and all branches are looked at."""

    def __init__(self, known: Callable[[Chain], Any], places: Collection[str]) -> None:
        super().__init__()
        self._known = known
        self._places = {axis: [0] for axis in places}

    def _eval(self, node: ast.expr) -> Any:
        try:
            return super()._eval(node)
        except (Unfit, TypeError) as error:
            raise _At(node, error) from None
        except (Undefined, ArithmeticError, LookupError, ValueError):
            return UNKNOWN  # other values may do

    def _read(self, chain: Chain) -> Any:
        return self._places if chain == (PLACES,) else self._known(chain)

    def _operate(self, kind: type[ast.AST], *values: Any, by: Callable[..., Any] = operate) -> Any:
        if kind is ast.Not:
            return truth(values[0])
        if any(_is_vague(one) for one in values):
            if kind in (ast.In, ast.NotIn):  # a container is looked into as a whole
                return _vague(values[:1], each=True)
            if issubclass(kind, ast.operator) and by is operate:
                refuse_lists(*(one for one in values if not isinstance(one, Gathered)))
            return _vague(values, each=True)
        if kind in (ast.Eq, ast.NotEq):
            texts = [isinstance(_item(one), str) for one in values if isinstance(_item(one), SCALARS)]
            if None not in values and len(texts) == 2 and texts[0] is not texts[1]:
                raise Unfit("a text never equals a number or a truth value", "quote texts, and only texts")
        made = by(kind, *values)
        if not issubclass(kind, ast.cmpop):
            return made
        return made.map(lambda _: True) if isinstance(made, Gathered) else True

    def _call(self, name: str, values: list[Any], options: Mapping[str, Any]) -> Any:
        each = is_of_one(name, values)
        if name == "along":
            vague, values = False, [[VALUE] if values[0] is VALUE else values[0], *values[1:]]
        elif name in ("where", "concat"):
            vague = any(isinstance(one, Unknown) for one in values)
        else:
            vague = any(_is_vague(one, inside=name not in OF_ONE) for one in values)
        made = Unplaced.of(values, [VALUE])
        if vague and name in ("concat", "sorted") and isinstance(made, Unplaced):
            return made
        return _vague(values, each) if vague else call(name, values, options)

    def _subscript(self, node: ast.Subscript) -> Any:
        if chain_of(node) is None:
            key = self._eval(node.slice)
            if isinstance(key, slice):
                return self._eval(node.value)
            if isinstance(key, Unknown):
                return UNKNOWN
        return super()._subscript(node)

    def _operation(self, node: ast.BinOp) -> Any:
        made, parts = super()._operation(node), (node.left, node.right)
        cuts = [ast.unparse(one.slice) for one in parts if isinstance(one, ast.Subscript)]
        if isinstance(made, Gathered) and len(set(cuts)) > 1 and all(":" in cut for cut in cuts):
            message = (
                f"slices keep their points: [{cuts[0]}] and [{cuts[1]}] meet where both have the same one"
            )
            raise Unfit(message, "compute with neighbours in a module, which gets the whole list")
        return made

    def _choice(self, node: ast.IfExp) -> Any:
        truth(self._eval(node.test))
        one, other = self._eval(node.body), self._eval(node.orelse)
        if type(one) is type(other) and getattr(one, "axes", ()) == getattr(other, "axes", ()):
            return one
        return UNKNOWN if isinstance(one, Gathered) or isinstance(other, Gathered) else VALUE

    def _logic(self, node: ast.BoolOp) -> Any:
        for operand in node.values:
            truth(self._eval(operand))
        return VALUE


def _item(value: Any) -> Any:
    """A value at one point."""
    return value[0] if isinstance(value, Gathered) and value else value


def _is_vague(value: Any, *, inside: bool = False) -> bool:
    """Whether nothing is known of a value, or of the items of one that is gathered, or of any list."""
    if isinstance(value, Gathered) or (inside and is_list(value)):
        return any(isinstance(item, Unknown) for item in value)
    return isinstance(value, Unknown)


def _vague(values: Collection[Any], each: bool) -> Any:
    if any(one is UNKNOWN for one in values):
        return UNKNOWN
    if each and any(isinstance(one, Gathered) for one in values):
        return pointwise(lambda *_: VALUE, list(values), of_null=True)
    return VALUE
