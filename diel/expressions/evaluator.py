"""Evaluating the tree of an expression over a scope, with the library simpleeval."""

from __future__ import annotations

import ast
import threading
from collections.abc import Mapping
from typing import Any

from simpleeval import EvalWithCompoundTypes

from diel.errors import did_you_mean
from diel.expressions.functions import FUNCTIONS, OPERATORS, Refused, noun
from diel.expressions.syntax import LITERALS, NODES, Chain, chain_of
from diel.expressions.text import SCALARS, is_list

Scope = Mapping[str, Any]


class _Evaluator(EvalWithCompoundTypes):  # type: ignore[misc]
    """simpleeval's evaluator, reduced to what NODES lists, reading names from a scope."""

    nodes: dict[type[ast.AST], Any]
    functions: dict[str, Any]
    names: Any

    def __init__(self) -> None:
        super().__init__(operators=OPERATORS, functions={})
        allowed = {node: handler for node, handler in self.nodes.items() if node in NODES}
        self.nodes = allowed | {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Tuple: self._eval_list,
        }
        self.functions = FUNCTIONS

    def run(self, tree: ast.expr | None, scope: Scope) -> Any:
        """The value of a tree. A scope may itself evaluate while it is read, so state is put back."""
        outer = self.names
        self.names = scope
        try:
            return self.eval("", previously_parsed=tree)
        finally:
            self.names = outer

    def _check_disallowed_items(self, item: Any) -> None:
        """Nothing to check: no function or module can be a value, for names read only the scope's
        data. simpleeval would walk a list of a million items at each step."""

    def _name(self, node: ast.Name) -> Any:
        if node.id in LITERALS:
            return LITERALS[node.id]
        return read((node.id,), self.names)

    def _attribute(self, node: ast.Attribute) -> Any:
        chain = chain_of(node)
        return _key(self._eval(node.value), node.attr) if chain is None else read(chain, self.names)

    def _subscript(self, node: ast.Subscript) -> Any:
        chain = chain_of(node)
        if chain is not None:
            return read(chain, self.names)
        container = self._eval(node.value)
        key = self._eval(node.slice)
        if isinstance(key, str):
            return _key(container, key)
        try:
            return container[key]
        except IndexError:
            raise Refused(f"there is no item {key} in a list of {len(container)}") from None
        except LookupError:
            raise Refused(f"there is no key {key!r}") from None
        except TypeError:
            raise Refused(f"cannot take item {key!r} of {noun(container)}") from None


def read(chain: Chain, scope: Any) -> Any:
    """What a dotted name means in a scope. Raises Refused."""
    value = scope
    try:
        for name in chain:
            value = value[name]
    except (LookupError, TypeError):
        raise Refused(*missing(chain, scope)) from None
    return value


def _key(value: Any, key: str) -> Any:
    """A key of a mapping; never an attribute of an object."""
    if isinstance(value, SCALARS) or is_list(value):
        raise Refused(f"{noun(value)} has no '{key}'")
    try:
        return value[key]
    except (LookupError, TypeError):
        raise Refused(f"there is no '{key}'", did_you_mean(key, _names(value))) from None


def missing(chain: Chain, scope: Any) -> tuple[str, str]:
    """What to say of a dotted name that a scope lacks, and a hint."""
    value = scope
    for index, name in enumerate(chain):
        before = ".".join(chain[:index])
        try:
            value = value[name]
        except LookupError:
            message = f"'{before}' has no '{name}'" if before else f"unknown name '{name}'"
            return message, did_you_mean(name, _names(value))
        except TypeError:
            return f"'{before}' is {noun(value)} and has no '{name}'", ""
    return f"'{'.'.join(chain)}' cannot be read", ""


def _names(value: Any) -> list[str]:
    """The keys of a mapping; none where it cannot tell them."""
    if not hasattr(type(value), "__iter__") or isinstance(value, str | list | tuple):
        return []
    return [key for key in value if isinstance(key, str)]


def readable(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, OverflowError):
        return "the result is too large"
    if isinstance(error, ValueError) and "domain" in str(error):
        return "the argument is outside the function's domain"
    return str(error) or type(error).__name__


class _Evaluators(threading.local):
    """One evaluator a thread: it holds the scope while it works."""

    def __init__(self) -> None:
        self.evaluator = _Evaluator()


_evaluators = _Evaluators()


def evaluate(tree: ast.expr, scope: Scope) -> Any:
    """The value of a tree. Raises Refused, or what the operators and functions raise."""
    return _evaluators.evaluator.run(tree, scope)
