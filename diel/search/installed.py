"""Whether what a search needs is installed; nothing is loaded."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from diel.errors import UsageError
from diel.spec import Workflow


def refuse_unsearchable(workflow: Workflow) -> None:
    """Raises UsageError where a package is missing."""
    used = {label for stage in workflow.stages.values() for label in stage.over}
    for label, axis in workflow.axes.items():
        lacking = [name for name in axis.needs if find_spec(name) is None]
        if lacking and label in used:
            extras = "search,torch" if "torch" in lacking else "search"
            raise UsageError(
                f"axis '{label}' {axis.needed_by}, which needs {' and '.join(lacking)}: "
                f"{sys.executable} -m pip install 'diel[{extras}]'"
            )
