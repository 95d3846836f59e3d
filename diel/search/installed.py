"""Whether what a search needs is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from diel.errors import UsageError
from diel.extensions import SEARCHERS, class_named
from diel.search.searcher import Searcher
from diel.search.space import space_of
from diel.spec import SAMPLERS, Search, Workflow


def refuse_unsearchable(workflow: Workflow) -> None:
    """Raises UsageError where a package is missing, or a searcher cannot make the trials of its search."""
    used = {label for stage in workflow.stages.values() for label in stage.over}
    for label, axis in workflow.axes.items():
        if label not in used:
            continue
        if isinstance(axis, Search) and axis.sampler not in SAMPLERS:
            kind: type[Searcher] = class_named(SEARCHERS, axis.sampler, Searcher)
            space = space_of(axis.parameters, workflow.hyperparameters, {})
            if why := kind.refusal(axis, space.parameters):
                raise UsageError(f"axis '{label}' {axis.needed_by}: {why}")
        lacking = [name for name in axis.needs if find_spec(name) is None]
        if lacking:
            extras = "search,torch" if "torch" in lacking else "search"
            raise UsageError(
                f"axis '{label}' {axis.needed_by}, which needs {' and '.join(lacking)}: "
                f"{sys.executable} -m pip install 'diel[{extras}]'"
            )
