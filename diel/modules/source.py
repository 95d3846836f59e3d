"""A Python file, parsed and not imported: its names, its functions, and which of them are modules."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from diel.errors import UsageError
from diel.files import flaw_of
from diel.modules.annotations import Annotations

_DECORATORS = frozenset({"diel.module", "diel.modules.decorator.module"})


class SignatureError(UsageError):
    """A function whose signature cannot be used. `line` (from 1) says where in the file."""

    def __init__(self, message: str, line: int = 1, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.line = line
        self.hint = hint


@dataclass(frozen=True)
class Source:
    """A parsed Python file."""

    path: Path
    tree: ast.Module = field(repr=False)

    @cached_property
    def names(self) -> Annotations:
        return Annotations(self.tree)

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The functions at the top level, by name; of two with one name the last counts."""
        return {node.name: node for node in top_level(self.tree.body) if isinstance(node, ast.FunctionDef)}

    def decorated(self) -> list[str]:
        """The names of the functions that are modules, in the file's order."""
        return [name for name, node in self.functions.items() if self.mark(node) is not None]

    def mark(self, function: ast.FunctionDef) -> ast.expr | None:
        """The decorator that makes a function a module."""
        for decorator in function.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self.names.full_name(called) in _DECORATORS:
                return decorator
        return None


def read_source(path: Path) -> Source:
    """A Python file, parsed once for each of its versions. Raises SignatureError."""
    if flaw := flaw_of(path):
        raise SignatureError(f"the file {flaw}")
    try:
        status = path.stat()
        return _read_source(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise SignatureError(f"{path} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=64)
def _read_source(path: Path, modified: int, size: int) -> Source:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of the file's style is not our matter
            return Source(path, ast.parse(path.read_bytes()))
    except SyntaxError as error:
        raise SignatureError(f"not valid Python: {error.msg}", error.lineno or 1) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SignatureError(f"not valid Python: {error}") from None


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a file, those under `if`, `try` and `with` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from top_level(node.body)
            if not isinstance(node, ast.With):
                yield from top_level(node.orelse)
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from top_level(handler.body)
