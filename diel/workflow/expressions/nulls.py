"""Where the null came from that stopped an expression, and what to write instead."""

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from diel.workflow.expressions.aggregates import AGGREGATES
from diel.workflow.expressions.gathered import GatheredValues
from diel.workflow.expressions.quantity import ComputationError, NullOperand
from diel.workflow.expressions.syntax import JOINT, Chain, chain_of, chains_in, operands

Evaluate = Callable[[ast.expr], Any]


def origin_of_null(tree: ast.expr, scope: object, evaluate: Evaluate) -> tuple[str, str]:
    """Return which part of a tree is null that was stopped by it, with where that comes from; and a hint."""
    part = _null_in(tree, evaluate) or tree
    shown = ast.unparse(part).replace(JOINT, ".")
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in AGGREGATES:
        return _aggregate(part, part.func.id, shown, evaluate)
    return name_of_null(shown, chain_of(part), scope)


def name_of_null(shown: str, chain: Chain | None, scope: object) -> tuple[str, str]:
    """Return the same of a part that is no aggregate."""
    maker = getattr(scope, "maker", None)
    task = maker(chain) if maker is not None and chain is not None else ""
    hint = f"`0 if {shown} == null else {shown}` gives another value"
    return (f"{shown}, which {task} made, is null" if task else f"{shown} is null"), hint


def _null_in(node: ast.expr, evaluate: Evaluate) -> ast.expr | None:
    """Return the innermost part that is null of what null stopped."""
    nulls = []
    for part in _parts(node, evaluate):
        try:
            value = evaluate(part)
        except NullOperand:
            return _null_in(part, evaluate)
        except ComputationError:  # the name of an axis
            continue
        if value is None:
            nulls.append(part)
    return nulls[0] if nulls else None


def _parts(node: ast.expr, evaluate: Evaluate) -> Iterator[ast.expr]:
    """Yield the parts of a node in the order in which they are evaluated."""
    if chain_of(node) is not None:
        return
    if isinstance(node, ast.IfExp):
        yield node.test
        yield node.body if evaluate(node.test) else node.orelse
        return
    parts = (part.value if isinstance(part, ast.keyword) else part for part in operands(node))
    yield from (part for part in parts if isinstance(part, ast.expr))


def _aggregate(call: ast.Call, name: str, shown: str, evaluate: Evaluate) -> tuple[str, str]:
    """Return why an aggregate is null, and what to write."""
    several = len(call.args) > 1 and name in ("max", "min")
    values = [*map(evaluate, call.args)] if several else evaluate(call.args[0])
    hint = f"`0 if {shown} == null else {shown}` gives another value"
    items = list(values) if isinstance(values, Sequence) else []
    there = [item for item in items if item is not None and item == item]
    if len(there) == len(items) or name.startswith("nan"):
        return f"{shown} is null, as it is of {'one value' if there else 'no values'}", hint
    if None not in items:
        return f"{shown} is null, as NaN among its values could decide it", hint
    at = values.place_text(items.index(None)) if isinstance(values, GatheredValues) else ""
    source = next((".".join(chain) for _, chain in chains_in(call.args[0])), "")
    hint = f"where({source}, {source} != null) leaves it out" if at and source else hint
    return f"{shown} is null, as one of its values is{at}", hint
