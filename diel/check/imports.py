"""Imports of modules that this machine cannot find: said before other stages run for hours."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from diel.check.workflow import Checked
from diel.errors import Problem, SpecError
from diel.modules.catalogue import Module
from diel.modules.signature import read_source
from diel.terms import EXTRAS

_NAMES = {"PIL": "pillow", "cv2": "opencv-python", "skimage": "scikit-image", "yaml": "pyyaml"}
"""What pip calls packages that are imported by other names."""


def refuse_missing(checked: Checked) -> None:
    """Raises SpecError where modules import what is not here. For workflows that run on this machine."""
    if problems := list(_problems(checked)):
        raise SpecError(problems)


def _problems(checked: Checked) -> Iterator[Problem]:
    """Packages that files of modules import at their top, and that are not here.

    Nothing is imported. What a file tries, or imports within a function, it can do without.
    """
    known: dict[Path, list[str]] = {}
    for name, module in checked.modules.items():
        stage = checked.workflow.stages[name]
        if (
            module.import_name is not None
            or stage.environment
            or stage.chooses_environment
            or "PYTHONPATH" in stage.env
        ):
            continue  # a package brings what it needs; another Python or path has packages of its own
        if module.path not in known:
            known[module.path] = list(_missing(module, checked.document.path.parent))
        for package in known[module.path]:
            extra = EXTRAS.get(package)
            wanted = f"diel[{extra}]" if extra else _NAMES.get(package, package)
            hint = f"{sys.executable} -m pip install '{wanted}'"
            message = f"{module.path.name} imports '{package}', which is not installed here"
            yield checked.document.problem(("stages", name, "module"), message, hint)


def _missing(module: Module, folder: Path) -> Iterator[str]:
    if b"sys.path" in module.path.read_bytes():
        return
    places = {folder, *list(module.path.parents)[:3]}  # modules/simulation/heat.py: also what lies beside
    names: dict[str, None] = {}
    for node in read_source(module.path).tree.body:
        if isinstance(node, ast.Import):
            names.update(dict.fromkeys(alias.name.partition(".")[0] for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names[node.module.partition(".")[0]] = None
    for name in names:
        beside = any((place / name).is_dir() or (place / f"{name}.py").exists() for place in places)
        if not beside and not _is_here(name):
            yield name


def _is_here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return True  # it is loaded in some way of its own
