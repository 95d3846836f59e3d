"""The syntax tree of an expression: which names stand in it, and where."""

import ast
from collections.abc import Iterable, Iterator

from diel.workflow.expressions.aggregates import AGGREGATES
from diel.workflow.expressions.functions import is_of_one

Chain = tuple[str, ...]
"""A dotted name: ("train", "loss")."""
JOINT = "·"
"""Stands for the dot in the name of a stage or a hyperparameter that was included: `relax·scf.energy` is the
`energy` of the stage `relax.scf`. What reads a workflow file writes it."""


def operands(node: ast.AST) -> list[ast.AST]:
    called = node.func if isinstance(node, ast.Call) else None
    children = ast.iter_child_nodes(node)
    return [child for child in children if child is not called and not isinstance(child, ast.expr_context)]


def axes_in(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that name an axis, as in `along(list, axis)`, and read no value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "along":
            yield node.args[1]


def axis_of(node: ast.AST) -> str:
    return ".".join(chain_of(node) or ())


def is_literal(node: ast.expr) -> bool:
    """Return whether a list is written in the expression itself, as `[0] * n`."""
    if isinstance(node, ast.BinOp):
        return is_literal(node.left) or is_literal(node.right)
    return isinstance(node, ast.List | ast.Tuple)


def chain_of(node: ast.AST) -> Chain | None:
    """Return the dotted name that a node is; None where it is none. `x["a"]` counts as `x.a`."""
    names: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            names.append(node.slice.value)
        else:
            return None
        node = node.value
    return dotted((node.id, *reversed(names))) if isinstance(node, ast.Name) else None


def chains_in(tree: ast.AST) -> Iterator[tuple[ast.AST, Chain]]:
    """Yield the dotted names in a tree, each with its node."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        chain = chain_of(node)
        if chain is None:
            waiting += operands(node)
        else:
            yield node, chain


REDUCING = frozenset({*AGGREGATES, "concat", "len", "size"})
"""Functions that make one value of all gathered ones, or a list without points."""


def reduces(node: ast.Call) -> bool:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return name in REDUCING and not is_of_one(name, node.args)


def handed_on(tree: ast.AST) -> Iterator[Chain]:
    """Yield the dotted names whose values are handed on point by point, and not as an aggregate."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and reduces(node):
            continue
        if (chain := chain_of(node)) is not None:
            yield chain
        else:
            waiting += [node.body, node.orelse] if isinstance(node, ast.IfExp) else operands(node)


def always_read(tree: ast.AST) -> set[Chain]:
    """Return the dotted names that are read under all conditions: of `a if c else b`, only `c`."""
    if (chain := chain_of(tree)) is not None:
        return {chain}
    if isinstance(tree, ast.IfExp):
        return always_read(tree.test) | (always_read(tree.body) & always_read(tree.orelse))
    inner = tree.values[:1] if isinstance(tree, ast.BoolOp) else operands(tree)
    return set[Chain]().union(*map(always_read, inner))


def dotted(parts: Iterable[str]) -> Chain:
    return tuple(part.replace(JOINT, ".") for part in parts)
