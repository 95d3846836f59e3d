"""What imports take of a worker's memory: a function's is told apart from what others left in its worker."""

import ast
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from diel.worker.attempt.reaper import kernel_file
from diel.workflow.modules.beside import Loader
from diel.workflow.modules.signature import SignatureError, read_source

PAGE = os.sysconf("SC_PAGE_SIZE")
_taken: defaultdict[str, int] = defaultdict(int)
"""Bytes that loading each package took, without what others took that it loaded."""
_kept: defaultdict[Path, int] = defaultdict(int)
"""Bytes that the functions of each file kept beyond their imports."""
_within = [0]
"""Bytes that the imports took which each of those that go on began; first of all: what all took."""
_libraries = [0]
"""How many files of libraries are being executed, one in the other."""


class ImportMeter:
    """Weigh each file that is imported from now on; tell `loaded` of it, with what `before` gave. `before`
    gets its name, and whether a user's file asks for it; `loaded` None for one whose import raised."""

    def __init__(self, before: Callable[[str, bool], Any], loaded: Callable[[str, Any, Any], object]) -> None:
        self._before = before
        self._loaded = loaded
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        finders = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in finders if hasattr(finder, "find_spec"))
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader.exec_module = self._weighed(name, spec.loader)  # type: ignore[method-assign, assignment]
        return spec

    def _weighed(self, name: str, loader: SourceFileLoader) -> Callable[[Any], None]:
        def execute(module: Any) -> None:
            settings = self._before(name, _libraries[0] == 0)
            before = _resident()
            _within.append(0)
            _libraries[0] += type(loader) is not Loader
            loaded = None
            try:
                type(loader).exec_module(loader, module)
                loaded = module
            finally:
                _libraries[0] -= type(loader) is not Loader
                whole = _resident() - before
                _taken[name.partition(".")[0]] += whole - _within.pop()
                _within[-1] += whole
                self._loaded(name, loaded, settings)

        return execute


def _resident() -> int:
    return int(os.pread(kernel_file("statm", os.getpid()), 64, 0).split()[1]) * PAGE


class OwnMemory:
    """The memory that the functions of one file keep in this worker, while one of them runs."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before = _resident() - _within[0]

    def end(self) -> None:
        """Count what the function keeps beyond its imports as its file's."""
        _kept[self._file] += _resident() - _within[0] - self._before

    def foreign(self) -> int:
        """Return bytes of this process that only the functions of other files use."""
        own = _needed(self._file, len(sys.modules)) if _taken else ()
        imported = sum(size for name, size in [*_taken.items()] if name not in own)
        return max(0, imported + sum(size for file, size in [*_kept.items()] if file != self._file))


@cache
def _needed(file: Path, _count: int) -> frozenset[str]:
    """Return the packages that a file imports, wherever in it, with those that these use."""
    own = [m for m in [*sys.modules.values()] if _names_in(m).get("__file__") == str(file)]
    packages = dict.fromkeys([*_named_in(file, own), *(name for module in own for name in _used_by(module))])
    by_package = defaultdict(list)
    for name, module in [*sys.modules.items()]:
        by_package[name.partition(".")[0]].append(module)
    for package in (todo := [*packages]):
        new = {name for module in by_package[package] for name in _used_by(module)} - packages.keys()
        if package in sys.stdlib_module_names:  # others hook into it
            new &= sys.stdlib_module_names
        packages.update(dict.fromkeys(new))
        todo += new
    return frozenset(packages)


def _named_in(file: Path, loaded: list[Any]) -> Iterator[str]:
    try:
        data = loaded[0].__loader__.get_data(str(file)) if loaded else None
        nodes = [*ast.walk(read_source(file, data).tree)]
    except (SignatureError, OSError, AttributeError):  # no Python that can be read
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _used_by(module: Any) -> Iterator[str]:
    for value in [*_names_in(module).values()]:
        name: object = None
        if issubclass(type(value), ModuleType):
            name = _names_in(value).get("__name__")
        elif issubclass(type(value), type):
            name = type.__getattribute__(value, "__dict__").get("__module__")
        elif type(value) is FunctionType:
            name = value.__module__
        if type(name) is str:
            yield name.partition(".")[0]


def _names_in(module: Any) -> dict[str, Any]:
    """Return the names of a module, without its own code: a lazy module, or what stands in its place, may do
    anything where it is asked for an attribute, even for its class."""
    if not issubclass(type(module), ModuleType):
        return {}
    own: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return own
