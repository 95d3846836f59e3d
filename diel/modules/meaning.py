"""What an annotation of a module's function says of data: files, arrays, values, or what diel fills in."""

from __future__ import annotations

import ast

from diel.modules.annotations import Annotations
from diel.modules.parameter import Injected

_CONTEXT = frozenset({"Context", "diel.Context", "diel.context.Context"})
_COMMUNICATORS = tuple(f"MPI.{name}" for name in ("Comm", "Intracomm", "Cartcomm", "Graphcomm"))
_FILES = frozenset({"pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"})
_ARRAYS = frozenset({"numpy.ndarray", "numpy.memmap", "numpy.typing.NDArray", "numpy.typing.ArrayLike"})
_LISTS = frozenset({"list", "typing.List", "tuple", "typing.Tuple"}) | frozenset(
    f"{module}.{name}"
    for module in ("typing", "collections.abc")
    for name in ("Sequence", "Iterable", "Collection")
)
_PLAIN = frozenset({"int", "float", "str", "bool"})
_MAPPINGS = frozenset({"dict", "typing.Dict", "typing.Mapping", "collections.abc.Mapping"})


def takes(names: Annotations, node: ast.expr | None) -> frozenset[str]:
    """What a parameter accepts, in the words of `Parameter.takes`."""
    if node is None:
        return frozenset({"any"})
    found = {_taken(names, member) for member in names.members(node)}
    return frozenset(found - {""}) or frozenset({"any"})


def _taken(names: Annotations, node: ast.expr, depth: int = 0) -> str:
    """The word for one member of a union; nothing for None."""
    if isinstance(node, ast.Constant) and node.value is None:
        return ""
    name = names.full_name(outer(node))
    if name in _PLAIN:
        return name
    if name in _FILES:
        return "path"
    if name in _ARRAYS:
        return "array"
    if name in _MAPPINGS:
        return "dict"
    if name not in _LISTS or depth > 1:
        return "any"
    inner = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(inner, ast.Tuple):
        inner = inner.elts[0] if inner.elts else None
    if inner is None:
        return "list"
    items = {_taken(names, member, depth + 1) for member in names.members(inner)} - {""}
    if items == {"path"}:
        return "paths"
    return "arrays" if items == {"array"} else "list"


def injected(names: Annotations, node: ast.expr) -> Injected | None:
    """What diel fills in for a parameter; None where the workflow does."""
    for member in names.members(node):
        name = names.full_name(member)
        if name in _CONTEXT:
            return "context"
        if name.removeprefix("mpi4py.") in _COMMUNICATORS:
            return "communicator"
    return None


def outer(node: ast.expr) -> ast.expr:
    """A generic without what stands in its brackets."""
    return node.value if isinstance(node, ast.Subscript) else node


def is_artifact(names: Annotations, node: ast.expr) -> bool:
    """Whether what is returned is a file or an array."""
    return any(names.full_name(outer(member)) in _FILES | _ARRAYS for member in names.members(node))
