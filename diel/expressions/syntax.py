"""The syntax of expressions: which of Python's constructs may stand in one."""

from __future__ import annotations

import ast
import keyword
import re
import warnings
from collections.abc import Iterator
from typing import Any

from diel.errors import DielError, did_you_mean
from diel.expressions.functions import FUNCTIONS

MAX_EXPRESSION = 10_000
"""Longest expression, in characters."""
MAX_NESTING = 100
"""Deepest nesting of an expression; the evaluator recurses."""

Chain = tuple[str, ...]
"""A dotted name: ("train", "loss")."""

LITERALS = {"true": True, "false": False, "null": None}
"""YAML's words for what Python calls True, False and None; both work."""

_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
WORDS = frozenset({"and", "or", "not", "in", "is", "if", "else", "for", "lambda", "True", "False", "None"})


class ExpressionError(DielError):
    """An expression that cannot be read or evaluated.

    `offset` counts the characters of the text before the place of the error.
    """

    def __init__(self, message: str, offset: int = 0, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.offset = offset
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.offset, self.hint)


def read(text: str, offset: int) -> ast.expr:
    """The tree of an expression, all of it allowed. Raises ExpressionError.

    `offset` counts the characters before it in the text that holds it.
    """
    if len(text) > MAX_EXPRESSION:
        raise ExpressionError(
            f"the expression is longer than {MAX_EXPRESSION:,} characters", offset, "compute it in a module"
        )
    tree = _syntax_tree(text, offset)
    _check(tree, text, offset)
    return tree


def _syntax_tree(text: str, offset: int) -> ast.expr:
    if not text:
        raise ExpressionError("the expression is empty", offset)
    flat = re.sub(r"[\r\n\t\f]", " ", text)  # an expression may go over several lines
    if "#" in _QUOTED.sub("", flat):
        raise ExpressionError("an expression cannot hold a comment", offset + text.index("#"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of what it would not like in a program
            return ast.parse(flat, mode="eval").body
    except SyntaxError as error:
        # Python gives no column, or one on a further line, where the text ends too soon
        column = min(error.offset - 1, len(text)) if error.offset and error.lineno == 1 else len(text)
        raise ExpressionError("the expression cannot be read", offset + column, _advice(text)) from None
    except (RecursionError, MemoryError):
        raise ExpressionError("the expression is nested too deeply", offset) from None
    except ValueError:
        raise ExpressionError("the expression holds a character that cannot stand there", offset) from None


_ADVICE = (
    ("&&", "write `and` for &&"),
    ("||", "write `or` for ||"),
    ("?", "write `a if condition else b` for a choice"),
    ("|", "write `or` for |; there are no filters"),
)


def _advice(text: str) -> str:
    """What to write instead, for the usual mistakes."""
    if re.search(r"![^=]", text):
        return "write `not` for !"
    if re.search(r"(?<![=!<>])=(?!=)", text):
        return "write == to compare"
    for mark, hint in _ADVICE:
        if mark in text:
            return hint
    for word in re.findall(r"[A-Za-z_]\w*", text):
        if keyword.iskeyword(word) and word not in WORDS:
            return f"`{word}` is a word of Python: such a name works alone, but not in a computation"
    return "expected names, numbers, quoted texts and operators, such as ${{ 2 * temperature }}"


NODES: tuple[type[ast.AST], ...] = (
    *(ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.List, ast.Tuple, ast.Dict),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword),
)
_OPERATORS: tuple[type[ast.AST], ...] = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.UAdd, ast.USub),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Not, ast.And, ast.Or),
)
_REFUSED: dict[type[ast.AST], str] = {
    ast.JoinedStr: "f-strings are not allowed; put several ${{ }} into the text",
    ast.Lambda: "functions cannot be made in an expression",
    ast.ListComp: "comprehensions are not allowed; compute it in a module",
    ast.GeneratorExp: "comprehensions are not allowed; compute it in a module",
    ast.DictComp: "comprehensions are not allowed; compute it in a module",
    ast.SetComp: "comprehensions are not allowed; compute it in a module",
    ast.Is: "`is` is not allowed; write ==",
    ast.IsNot: "`is not` is not allowed; write !=",
    ast.BitAnd: "`&` is not allowed; write `and`",
    ast.BitOr: "`|` is not allowed; write `or`",
    ast.BitXor: "`^` is not allowed; write ** for a power",
    ast.Starred: "`*` before a list is not allowed",
    ast.NamedExpr: "`:=` is not allowed",
}


def _check(tree: ast.expr, text: str, offset: int) -> None:
    """Refuses what is not on the list of allowed constructs."""
    waiting: list[tuple[ast.AST, int, int]] = [(tree, 0, 0)]
    while waiting:
        node, depth, column = waiting.pop()
        column = _column(node, text, column)
        if depth > MAX_NESTING:
            raise ExpressionError("the expression is nested too deeply", offset + column)
        message = _objection(node)
        if message:
            message, _, hint = message.partition("; ")
            raise ExpressionError(message, offset + column, hint)
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            children.remove(node.func)
        waiting.extend(
            (child, depth + 1, column) for child in children if not isinstance(child, ast.expr_context)
        )


def _column(node: ast.AST, text: str, default: int) -> int:
    """Characters before a node; Python counts them in bytes."""
    place: int | None = getattr(node, "col_offset", None)
    return default if place is None else len(text.encode()[:place].decode(errors="ignore"))


def _objection(node: ast.AST) -> str:
    """Why a node is not allowed; empty where it is."""
    if isinstance(node, ast.Call):
        return _call_objection(node)
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return f"a name cannot start with an underscore: {name}" if name.startswith("_") else ""
    if isinstance(node, ast.Constant) and not isinstance(node.value, str | int | float | None):
        return f"{type(node.value).__name__} values are not allowed"
    if isinstance(node, ast.Dict) and None in node.keys:
        return "`**` before a mapping is not allowed"
    if isinstance(node, NODES + _OPERATORS):
        return ""
    return _REFUSED.get(type(node), f"{type(node).__name__} is not allowed in an expression")


def _call_objection(node: ast.Call) -> str:
    known = ", ".join(sorted(FUNCTIONS))
    if not isinstance(node.func, ast.Name):
        return f"methods cannot be called; the functions are {known}"
    if node.func.id not in FUNCTIONS:
        hint = did_you_mean(node.func.id, FUNCTIONS) or f"the functions are {known}"
        return f"unknown function '{node.func.id}'; {hint}"
    if any(argument.arg is None for argument in node.keywords):
        return "`**` before a mapping is not allowed"
    return ""


def chains(tree: ast.AST) -> Iterator[Chain]:
    """The dotted names that a tree reads; `x["a"]` counts as `x.a`."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        chain = chain_of(node)
        if chain is not None:
            if chain[0] not in LITERALS:
                yield chain
            continue
        children = list(ast.iter_child_nodes(node))
        waiting.extend(child for child in children if not (isinstance(node, ast.Call) and child is node.func))


def chain_of(node: ast.AST) -> Chain | None:
    names: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            names.append(node.slice.value)
        else:
            break
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else None
