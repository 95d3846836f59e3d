"""Type annotations as text, turned into types that can check a value.

The names of a file are followed through its imports and its top-level aliases without importing
anything; what cannot be followed means Any, which checks nothing.
"""

from __future__ import annotations

import ast
import collections.abc
import pathlib
import typing
from collections.abc import Iterator
from functools import cached_property
from typing import Any

_SIMPLE: dict[str, Any] = {
    **{kind.__name__: kind for kind in (int, float, str, bool, list, tuple, dict, set, frozenset)},
    **{f"pathlib.{name}": pathlib.Path for name in ("Path", "PurePath", "PosixPath")},
    "typing.List": list,
    "typing.Tuple": tuple,
    "typing.Dict": dict,
    "typing.FrozenSet": frozenset,
    **{
        f"{module}.{name}": getattr(collections.abc, name)
        for module in ("typing", "collections.abc")
        for name in ("Sequence", "Mapping", "Set")
    },
    "collections.abc.MutableMapping": dict,
    "collections.abc.MutableSequence": list,
    "typing.Set": set,
}
_PYDANTIC = frozenset(
    {"PositiveInt", "NonNegativeInt", "NegativeInt", "NonPositiveInt", "PositiveFloat", "NonNegativeFloat"}
    | {"NegativeFloat", "NonPositiveFloat", "FiniteFloat"}
)
_FIELD_BOUNDS = frozenset(
    {"ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "multiple_of", "allow_inf_nan"}
)
_BOUNDS = {
    "Ge": ("ge",),
    "Gt": ("gt",),
    "Le": ("le",),
    "Lt": ("lt",),
    "MultipleOf": ("multiple_of",),
    "MinLen": ("min_length",),
    "MaxLen": ("max_length",),
    "Len": ("min_length", "max_length"),
    "Interval": (),
}
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})
_MAX_DEPTH = 30  # an alias may refer to itself


class Annotations:
    """The names that the annotations of one file use."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    def full_name(self, node: ast.expr) -> str:
        """The dotted name that an expression means: `t.Literal` is typing.Literal after
        `import typing as t`. Empty where it is no name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        name = ".".join([self._imports.get(node.id, node.id), *reversed(parts)])
        return name.replace("typing_extensions.", "typing.")

    def unquoted(self, node: ast.expr) -> ast.expr:
        """The annotation inside quotes, where it is written so."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return ast.parse(node.value.strip(), mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return node
        return node

    def members(self, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """The members of a union, or the one type; aliases and Annotated are looked through."""
        node = self._resolved(node)
        if depth > _MAX_DEPTH:
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            inner = [node.left, node.right]
        elif isinstance(node, ast.Subscript):
            name = self.full_name(node.value).rpartition(".")[2]
            items = _items(node)
            if name in ("Union", "Optional"):
                inner = items
            elif name == "Annotated" or name in _WRAPPERS:
                inner = items[:1]
            else:
                yield node
                return
        else:
            yield node
            return
        for member in inner:
            yield from self.members(member, depth + 1)

    def literal(self, node: ast.expr) -> Any:
        """A literal, or the top-level name of one; None where it is neither."""
        if isinstance(node, ast.Name) and node.id in self._aliases:
            node = self._aliases[node.id]
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return None

    def type_of(self, node: ast.expr, depth: int = 0) -> Any:
        """The type that an annotation means, as far as it can be followed; Any beyond that."""
        if depth > _MAX_DEPTH:
            return Any
        node = self._resolved(node)
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return typing.Union[self.type_of(node.left, depth + 1), self.type_of(node.right, depth + 1)]  # noqa: UP007
        if isinstance(node, ast.Subscript):
            return self._generic(node, depth)
        name = self.full_name(node)
        if name.startswith("pydantic.") and name.removeprefix("pydantic.") in _PYDANTIC:
            import pydantic  # here: only annotations that name its types need it

            return getattr(pydantic, name.removeprefix("pydantic."))
        return _SIMPLE.get(name, Any)

    def _generic(self, node: ast.Subscript, depth: int) -> Any:
        name = self.full_name(node.value)
        items = _items(node)
        if name == "typing.Literal":
            values = tuple(self.literal(item) for item in items)
            plain = all(isinstance(value, str | int | bool | None) for value in values)
            return typing.Literal[values] if plain and values else Any
        if name == "typing.Annotated":
            return self._annotated(items, depth)
        if name.startswith("typing.") and name.removeprefix("typing.") in _WRAPPERS:
            return self.type_of(items[0], depth + 1)
        inner = tuple(
            ... if isinstance(item, ast.Constant) and item.value is ... else self.type_of(item, depth + 1)
            for item in items
        )
        if name == "typing.Optional":
            return typing.Optional[inner[0]]  # noqa: UP045
        if name == "typing.Union":
            return typing.Union[inner]  # noqa: UP007
        outer = _SIMPLE.get(name)
        return Any if outer is None else outer[inner if len(inner) != 1 else inner[0]]

    def _annotated(self, items: list[ast.expr], depth: int) -> Any:
        """A type with bounds; other notes in Annotated are passed over."""
        result = self.type_of(items[0], depth + 1)
        bounds: dict[str, Any] = {}
        for item in items[1:]:
            item = self._resolved(item)
            if isinstance(item, ast.Call):
                bounds |= self._bounds(item)
        if not bounds:
            return result
        from pydantic import Field  # here: only annotations with bounds need it

        return typing.Annotated[result, Field(**bounds)]

    def _bounds(self, call: ast.Call) -> dict[str, Any]:
        name = self.full_name(call.func)
        short = name.rpartition(".")[2]
        if name == "pydantic.Field" or name == "pydantic.fields.Field":
            positional: tuple[str, ...] = ()
        elif name == f"annotated_types.{short}" and short in _BOUNDS:
            positional = _BOUNDS[short]
        else:
            return {}
        given = dict(zip(positional, call.args, strict=False))
        given |= {item.arg: item.value for item in call.keywords if item.arg in _FIELD_BOUNDS}
        values = {key: self.literal(value) for key, value in given.items()}
        return {key: value for key, value in values.items() if value is not None}

    def _resolved(self, node: ast.expr) -> ast.expr:
        """An annotation without quotes, and what an alias stands for."""
        for _ in range(_MAX_DEPTH):
            node = self.unquoted(node)
            if not isinstance(node, ast.Name) or node.id not in self._aliases:
                break
            node = self._aliases[node.id]
        return node

    @cached_property
    def _imports(self) -> dict[str, str]:
        """Full names by local name, for all imports of the file, wherever they stand."""
        found: dict[str, str] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    found[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return found

    @cached_property
    def _aliases(self) -> dict[str, ast.expr]:
        """What top-level names are assigned: `Positive = Annotated[int, Ge(1)]`."""
        found: dict[str, ast.expr] = {}
        for node in self._tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                target, value = node.target, node.value
            elif type(node).__name__ == "TypeAlias":  # `type X = ...`, Python 3.12 and later
                target, value = node.name, node.value  # type: ignore[attr-defined]
            else:
                continue
            if isinstance(target, ast.Name):
                found[target.id] = value
        return found


def _items(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
