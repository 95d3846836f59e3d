"""Type annotations as text: the types that can check a value, and what they say about data.

The names of a file are followed through its imports and its top-level aliases without importing
anything; what cannot be followed means Any, which checks nothing.
"""

import ast
import collections.abc
import pathlib
import re
import typing
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

from diel.workflow.modules.numpy_types import numpy_type

Injected = Literal["context", "communicator"]

_SIMPLE: dict[str, Any] = {
    **{kind.__name__: kind for kind in (int, float, complex, str, bool, list, tuple, dict, set, frozenset)},
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
_BOUNDS: dict[str, tuple[str, ...]] = {
    "pydantic.Field": (),
    "pydantic.fields.Field": (),
    "annotated_types.Ge": ("ge",),
    "annotated_types.Gt": ("gt",),
    "annotated_types.Le": ("le",),
    "annotated_types.Lt": ("lt",),
    "annotated_types.MultipleOf": ("multiple_of",),
    "annotated_types.MinLen": ("min_length",),
    "annotated_types.MaxLen": ("max_length",),
    "annotated_types.Len": ("min_length", "max_length"),
    "annotated_types.Interval": (),
}
"""The calls inside `Annotated`, and the bounds that they take by position."""
_CONTEXT = frozenset({"Context", "diel.Context", "diel.worker.context.Context"})
_COMMUNICATORS = tuple(f"MPI.{name}" for name in ("Comm", "Intracomm", "Cartcomm", "Graphcomm"))
_WORDS = {
    **{name: {name} for name in ("int", "float", "str", "bool")},
    "path": {"pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"},
    "array": {"numpy.ndarray", "numpy.memmap", "numpy.typing.NDArray", "numpy.typing.ArrayLike"},
    "dict": {"dict", "typing.Dict", "typing.Mapping", "collections.abc.Mapping"},
}
OBJECTS = {
    "frame": {"pandas.DataFrame"},
    "arrow": {"pyarrow.Table"},
    "dataset": {"xarray.Dataset"},
    "dataarray": {"xarray.DataArray"},
    "structure": {"ase.Atoms", "ase.atoms.Atoms"},
}
"""Types whose objects are read from files and written to them, by their words in `Parameter.takes`."""
_WORDS |= OBJECTS
_FILES = frozenset().union(*(_WORDS[word] for word in ("path", "array", *OBJECTS)))
_LISTS = frozenset({"list", "typing.List", "tuple", "typing.Tuple"}) | frozenset(
    f"{module}.{name}"
    for module in ("typing", "collections.abc")
    for name in ("Sequence", "Iterable", "Collection")
)
_UNMADE = re.compile(r"datetime\.(date|datetime|time|timedelta)|bytes|(decimal|fractions|uuid)\.\w+")
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})
_MAX_DEPTH = 30  # an alias may refer to itself


class Annotations:
    """The names that the annotations of one file use."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    def full_name(self, node: ast.expr) -> str:
        """Return the dotted name that an expression means: `t.Literal` is typing.Literal."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        name = ".".join([self._imports.get(node.id, node.id), *reversed(parts)])
        return name.replace("typing_extensions.", "typing.")

    def unquoted(self, node: ast.expr) -> ast.expr:
        """Return the annotation inside the quotes, if quoted."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return ast.parse(node.value.strip(), mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return node
        return node

    def members(self, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """Yield the members of a union, or the one type; see through aliases and Annotated."""
        node = self._resolved(node)
        if depth > _MAX_DEPTH:
            return
        inner: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            inner = [node.left, node.right]
        elif isinstance(node, ast.Subscript):
            name = self.full_name(node.value).rpartition(".")[2]
            if name in ("Union", "Optional"):
                inner = _items(node)
            elif name in ("Annotated", *_WRAPPERS):
                inner = _items(node)[:1]
        if not inner:
            yield node
        for member in inner:
            yield from self.members(member, depth + 1)

    def literal(self, node: ast.expr) -> Any:
        """Return a literal, or the top-level name of one; None if it is neither."""
        if isinstance(node, ast.Name) and node.id in self._aliases:
            node = self._aliases[node.id]
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return None

    def type_of(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the type that an annotation means; Any for what cannot be followed."""
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
        module, _, short = name.rpartition(".")
        if module == "pydantic" and short in _PYDANTIC:
            import pydantic  # here: only annotations that name its types need it

            return getattr(pydantic, short)
        if _UNMADE.fullmatch(name) or name in self._records:
            return type(short, (), {"made": False})  # no value of a workflow becomes one
        exact = numpy_type(short) if module == "numpy" else None
        return exact or _SIMPLE.get(name, Any)

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
        if name in _WORDS["array"]:
            return numpy_type("ndarray", self.full_name(items[-1]).rpartition(".")[2])
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
        positional = _BOUNDS.get(self.full_name(call.func))
        if positional is None:
            return {}
        arguments = dict(zip(positional, call.args, strict=False))
        arguments |= {item.arg: item.value for item in call.keywords if item.arg in _FIELD_BOUNDS}
        values = {key: self.literal(value) for key, value in arguments.items()}
        return {key: value for key, value in values.items() if value is not None}

    def takes(self, node: ast.expr | None) -> frozenset[str]:
        """Return the kinds that a parameter accepts, in the words of `Parameter.takes`."""
        members = () if node is None else self.members(node)
        return frozenset(self._takes(member) for member in members) - {""} or frozenset({"any"})

    def _takes(self, node: ast.expr, depth: int = 0) -> str:
        if isinstance(node, ast.Constant) and node.value is None:
            return ""
        name = self.full_name(outer(node))
        for word, names in _WORDS.items():
            if name in names:
                return word
        if name not in _LISTS or depth > 1:
            return "any"
        inner = node.slice if isinstance(node, ast.Subscript) else None
        if isinstance(inner, ast.Tuple):
            inner = inner.elts[0] if inner.elts else None
        items = {self._takes(member, depth + 1) for member in self.members(inner)} - {""} if inner else set()
        return (
            f"{item}s" if len(items) == 1 and (item := items.pop()) in ("path", "array", *OBJECTS) else "list"
        )

    def injected(self, node: ast.expr) -> Injected | None:
        """Return what diel fills in for a parameter; None if the workflow does."""
        for member in self.members(node):
            name = self.full_name(member)
            if name in _CONTEXT:
                return "context"
            if name.removeprefix("mpi4py.") in _COMMUNICATORS:
                return "communicator"
        return None

    def is_artifact(self, node: ast.expr) -> bool:
        """Return whether a returned value is a file, or is kept in one."""
        return any(self.full_name(outer(member)) in _FILES for member in self.members(node))

    def is_single(self, node: ast.expr) -> bool:
        """Return whether a returned value is one output: a number, a text, a list, or kept in one file."""
        single = frozenset({"int", "float", "str", "bool", "list", "typing.List"}) | _FILES
        return all(self.full_name(outer(member)) in single for member in self.members(node))

    def _resolved(self, node: ast.expr) -> ast.expr:
        for _ in range(_MAX_DEPTH):
            node = self.unquoted(node)
            if not isinstance(node, ast.Name) or node.id not in self._aliases:
                break
            node = self._aliases[node.id]
        return node

    @cached_property
    def _records(self) -> set[str]:
        """The file's classes whose objects no value becomes; a `TypedDict` is a mapping, `StrEnum` a text."""
        classes = (node for node in self._tree.body if isinstance(node, ast.ClassDef))
        marks = {node.name: [*node.bases, *map(outer_call, node.decorator_list)] for node in classes}
        kinds = {"dataclass", "NamedTuple", "BaseModel", "Enum"}
        return {n for n, m in marks.items() if kinds & {self.full_name(x).rpartition(".")[2] for x in m}}

    @cached_property
    def _imports(self) -> dict[str, str]:
        """Full names by local name, for all imports anywhere in the file."""
        names: dict[str, str] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    names[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return names

    @cached_property
    def _aliases(self) -> dict[str, ast.expr]:
        """The values of top-level names: `Positive = Annotated[int, Ge(1)]`."""
        aliases: dict[str, ast.expr] = {}
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
                aliases[target.id] = value
        return aliases


def _items(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def outer(node: ast.expr) -> ast.expr:
    """Return a generic without its brackets."""
    return node.value if isinstance(node, ast.Subscript) else node


def outer_call(node: ast.expr) -> ast.expr:
    """Return the called name, or the name alone."""
    return node.func if isinstance(node, ast.Call) else node
