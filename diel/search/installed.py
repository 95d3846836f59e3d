"""Whether what a search needs is installed; nothing is loaded."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from diel.errors import UsageError
from diel.spec import Workflow

_NEEDS = {"cmaes": ("cmaes",), "gp": ("scipy", "torch"), "qmc": ("scipy",)}
"""Packages of samplers, beside Optuna."""


def refuse_unsearchable(workflow: Workflow) -> None:
    """Raises UsageError where a package is missing."""
    used = {label for stage in workflow.stages.values() for label in stage.over}
    for label, axis in workflow.axes.items():
        if axis.search is None or label not in used:
            continue
        sampler = axis.search.sampler
        lacking = [name for name in ("optuna", *_NEEDS.get(sampler, ())) if find_spec(name) is None]
        if lacking:
            extras = "search,torch" if "torch" in lacking else "search"
            raise UsageError(
                f"axis '{label}' searches with {sampler}, which needs {' and '.join(lacking)}: "
                f"{sys.executable} -m pip install 'diel[{extras}]'"
            )
