"""What the file of a module imports, and whether that is installed. Nothing is imported to find out."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from diel.modules.signature import read_source


def imports(path: Path, folders: Iterable[Path]) -> tuple[str, ...]:
    """The packages that a file imports at its top, but for other files in the folders from which it imports.

    What it tries, or imports within a function, it can do without. One that changes where Python looks is
    left alone.
    """
    if b"sys.path" in path.read_bytes():
        return ()
    names: dict[str, None] = {}
    for node in read_source(path).tree.body:
        if isinstance(node, ast.Import):
            names.update(dict.fromkeys(alias.name.partition(".")[0] for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names[node.module.partition(".")[0]] = None
    found = {name: [at / f"{name}.py" for at in folders] for name in names}
    beside = {
        name
        for name, files in found.items()
        if any(file.with_suffix("").is_dir() or (file.exists() and file != path) for file in files)
    }  # a file `lammps.py` that imports lammps means the package
    return tuple(name for name in names if name not in beside)


def absent(names: Iterable[str]) -> tuple[str, ...]:
    """Those of these packages that are not installed here."""
    return tuple(name for name in names if not _is_here(name))


def _is_here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return True  # it is loaded in some way of its own
