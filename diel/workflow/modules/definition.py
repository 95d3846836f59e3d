"""The place where a package defines a function, found through its imports without importing any."""

import ast
import functools
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from diel.workflow.modules.parameter import Parameter, Passed
from diel.workflow.modules.signature import Signature, read_source, top_level

_STAR = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*\*", re.MULTILINE)
_HIDING = re.compile(r"globals\(\)\s*(\[|\.(update|setdefault))|\bexec\(|setattr\(sys\.modules")
"""Code that makes names without writing them."""


class NameNotFound(Exception):
    """A package has no such name. `names` are those that it has."""

    def __init__(self, names: Iterable[str] = (), *, maybe: bool = False) -> None:
        super().__init__()
        self.names = tuple(names)
        self.maybe = maybe
        """Whether its code may make names without writing them."""


def find_spec(name: str) -> ModuleSpec | None:
    """Return where an importable module is, found without importing the packages that hold it."""
    package = name.rpartition(".")[0]
    if package in sys.stdlib_module_names and name in sys.modules:
        return sys.modules[name].__spec__  # `os.path` is in no package
    above = find_spec(package) if package else None
    if package and above is None:
        return None
    places = None if above is None else above.submodule_search_locations or []
    for finder in sys.meta_path:  # all finders: an editable install can bring its own
        look = getattr(finder, "find_spec", None)
        try:
            spec = look(name, places) if look else None
        except KeyError:  # a directory of data in a package that is not imported
            spec = None
        if isinstance(spec, ModuleSpec):
            return spec
    return None


def follow(module: str, name: str) -> tuple[Path, str] | None:
    """Return the file that defines a name, and its name there; None if code makes it. Raise Absent."""
    visited: dict[tuple[str, str], Path] = {}
    try:
        return _follow(module, name, visited)
    except NameNotFound as error:
        paths = dict.fromkeys(visited.values())
        candidates = dict.fromkeys(public for path in paths for public in _public(path))
        if error.maybe and not get_close_matches(name, candidates, cutoff=0.9):
            return None
        raise NameNotFound(candidates) from None


def _follow(module: str, name: str, visited: dict[tuple[str, str], Path]) -> tuple[Path, str] | None:
    spec = find_spec(module)
    if spec is None or not (spec.origin or "").endswith(".py"):
        return None
    if (module, name) in visited:
        raise NameNotFound
    path = visited[module, name] = Path(str(spec.origin))
    text = path.read_text(encoding="utf-8", errors="replace")
    mentioned = re.search(rf"\b{name}\b", text) is not None
    if mentioned:  # large files that do not say the name need not be parsed
        for node in reversed([*top_level(read_source(path).tree.body)]):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.name == name:
                return path, name
            target = _target(node, name, spec)
            if target is not None:
                return _follow(*target, visited) if all(target) else None
    maybe, unclear = _HIDING.search(text) is not None, mentioned and "__getattr__" in text
    for star in reversed(_STAR.findall(text)):
        level = len(star) - len(star.lstrip("."))
        try:
            place = _follow(_absolute(star.lstrip("."), level, spec), name, visited)
        except NameNotFound as error:
            maybe |= error.maybe
            continue
        if place is not None:
            return place
        unclear = True
    if unclear:
        return None
    raise NameNotFound(maybe=maybe)


def _target(node: ast.stmt, name: str, spec: ModuleSpec) -> tuple[str, str] | None:
    """Return the module and name that a statement gives this name; empty where nobody can tell."""
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                source = _absolute(node.module or "", node.level, spec)
                return ("", "") if source == spec.name else (source, alias.name)  # a file of the package
    elif isinstance(node, ast.Import):
        if any((alias.asname or alias.name.partition(".")[0]) == name for alias in node.names):
            return "", ""
    elif isinstance(node, ast.Assign) and name in [getattr(target, "id", "") for target in node.targets]:
        other = getattr(node.value, "id", name)
        return (spec.name, other) if other != name else ("", "")
    return None


def _absolute(module: str, level: int, spec: ModuleSpec) -> str:
    if not level:
        return module
    package = spec.name if spec.submodule_search_locations is not None else spec.name.rpartition(".")[0]
    for _ in range(level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{module}".rstrip(".")


def _public(path: Path) -> Iterator[str]:
    for node in top_level(read_source(path).tree.body):
        if isinstance(node, ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
        else:
            names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        yield from (name for name in names if not name.startswith("_") and name != "*")


def read_object(module: Any, name: str) -> Signature:
    """Return the signature of a compiled function, as far as Python shows one. Raise Absent."""
    import inspect  # here: few workflows name one

    target = getattr(module, name, None)
    if not callable(target):
        raise NameNotFound([arg for arg in dir(module) if not arg.startswith("_")])
    doc = " ".join((inspect.getdoc(target) or "").split("\n\n")[0].split())
    try:
        declared = inspect.signature(target).parameters.values()
    except (ValueError, TypeError):
        return Signature(name, doc=doc, loose=True)
    parameters = []
    for arg in declared:
        optional, passed = arg.default is not arg.empty, way_of(arg)
        required, default = not optional and passed != "spread", arg.default if optional else None
        parameters.append(Parameter(arg.name, required=required, default=default, passed=passed, takes=_ANY))
    return Signature(name, doc=doc, parameters=tuple(parameters))


_ANY = frozenset({"any"})


def way_of(parameter: Any) -> Passed:
    """Return how a call gives a parameter, as `inspect` describes it."""
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return "place"
    return "spread" if parameter.kind is parameter.VAR_POSITIONAL else "name"


_OF_CLASSES = (classmethod, staticmethod, types.ClassMethodDescriptorType, types.BuiltinFunctionType)
"""Methods that a class has without an object: written in Python, or compiled."""


def method_of(owner: Any, name: str) -> Callable[..., Any] | None:
    """Return a method as a function of `self`: an object, a mapping to make it of, or left out. One of the
    class itself (`classmethod`, `staticmethod`) is called as it is."""
    method: Callable[..., Any] | None = getattr(owner, name, None)
    if not callable(method):
        return None
    import inspect  # here: few workflows name one

    if isinstance(owner, type) and isinstance(inspect.getattr_static(owner, name), _OF_CLASSES):
        return method

    @functools.wraps(method)
    def call(*places: Any, self: Any = None, **named: Any) -> Any:
        instance = owner(**(self or {})) if self is None or isinstance(self, dict) else self
        return getattr(instance, name)(*places, **named)

    return call
