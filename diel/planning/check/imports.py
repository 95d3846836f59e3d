"""Imports of modules that a machine cannot find: reported before other stages run for hours."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from diel.base.errors import SpecError
from diel.base.terms import EXTRAS
from diel.planning.check.workflow import CheckedWorkflow
from diel.workflow.modules.beside import absent, imports

_NAMES = {"PIL": "pillow", "cv2": "opencv-python", "skimage": "scikit-image", "yaml": "pyyaml"}
"""pip's names of packages that are imported by other names."""
Absent = Callable[[Iterable[str]], Iterable[str]]


def refuse_missing(checked: CheckedWorkflow) -> None:
    """Raise SpecError where modules import what is not installed here, for runs on this machine."""
    problems = [
        checked.document.problem(("stages", stage, "module"), f"{message} here", hint)
        for stage, message, hint in missing(checked, checked.modules, absent, sys.executable)
    ]
    if problems:
        raise SpecError(problems)


def missing(
    checked: CheckedWorkflow, stages: Iterable[str], absent: Absent, python: str
) -> Iterator[tuple[str, str, str]]:
    """Yield stages whose modules import what is not installed: message and the command that installs it."""
    for stage, path, names in imported(checked, stages):
        for package in absent(names):
            extra = EXTRAS.get(package)
            requirement = f"diel[{extra}]" if extra else _NAMES.get(package, package)
            message = f"{path.name} imports '{package}', which is not installed"
            yield stage, message, f"{python} -m pip install '{requirement}'"


def imported(checked: CheckedWorkflow, stages: Iterable[str]) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """Yield the imports of the files of stages' modules."""
    cached: dict[Path, tuple[str, ...]] = {}
    for name in stages:
        module, stage = checked.modules.get(name), checked.workflow.stages[name]
        if module is None or module.import_name is not None:
            continue  # a package brings what it needs
        if stage.is_surrounded or "PYTHONPATH" in stage.env:
            continue  # another Python or path has packages of its own
        if module.path not in cached:
            cached[module.path] = imports(module.path, module.importer.folders)
        yield name, module.path, cached[module.path]
