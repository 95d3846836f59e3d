"""The folders from which a user's files import each other: in a worker, those of one module at a time.

Two folders may each have a `helper.py`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from diel.modules.signature import SignatureError, read_source

_entered: list[str] = []
_left: dict[tuple[str, ...], dict[str, ModuleType]] = {}
"""What was imported from folders that were left, by these."""


def enter(folders: Sequence[Path], *, first: bool) -> None:
    """Makes Python find the files in some folders, and no longer those in the folders before.

    They come after all else; or `first`, before installed packages, as for a script, but after Python's own,
    which a `random.py` must not replace.
    """
    names = [str(folder) for folder in folders]
    if not names or names == _entered:
        return
    left = {name: module for name, module in sys.modules.items() if _is_within(module, _entered)}
    _left[tuple(_entered)] = left
    for name in left:
        del sys.modules[name]
    sys.path[:] = [entry for entry in sys.path if entry not in _entered]
    packages = (place for place, entry in enumerate(sys.path) if entry.endswith("-packages"))
    place = next(packages, len(sys.path)) if first else len(sys.path)
    sys.path[place:place] = names
    sys.modules.update(_left.pop(tuple(names), {}))
    _entered[:] = names


def _is_within(module: ModuleType | None, folders: Sequence[str]) -> bool:
    path = getattr(module, "__file__", None)
    if module is None or not path:
        return False
    if module.__name__.startswith("diel_modules_"):  # these have names of their own
        return False
    return any(str(path).startswith(f"{folder}/") for folder in folders)


def files_of(path: Path, folders: Sequence[Path]) -> tuple[Path, ...]:
    """The other files of these folders that a file imports, and these in their turn, in one order."""
    found = {path: None}
    for file in (todo := [path]):
        new = [one for one in _imported(file, folders) if one not in found]
        found.update(dict.fromkeys(new))
        todo += new
    del found[path]
    return tuple(sorted(found))


def _imported(path: Path, folders: Sequence[Path]) -> Iterator[Path]:
    try:
        tree = read_source(path).tree
    except SignatureError:
        return  # which is told where it is imported
    for node in ast.walk(tree):
        names, roots = [], tuple(folders)
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            names = [".".join([*base, *more]) for more in ([], *([alias.name] for alias in node.names))]
            roots = tuple(path.parents)[node.level - 1 : node.level] if node.level else roots
        for name in filter(None, names):
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                at = Path(*parts[:end])
                files = (root / one for root in roots for one in (at.with_suffix(".py"), at / "__init__.py"))
                yield from (file for file in files if file.is_file())
