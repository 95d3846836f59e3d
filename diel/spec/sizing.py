"""What an earlier run's usage says that stages ask for, instead of what the workflow says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.spec.workflow import Workflow


def apply_sizes(workflow: Workflow, sizes: Mapping[str, Mapping[str, Any]]) -> None:
    """Gives stages these resources: sizes in bytes, durations in seconds."""
    for name, given in sizes.items():
        if name in workflow.stages:
            stage = workflow.stages[name]
            resources = stage.resources.model_copy(update=dict(given))
            workflow.stages[name] = stage.model_copy(update={"resources": resources})
