"""Workflows of commands that do nothing, and their graphs."""

from __future__ import annotations

from typing import Any

from diel.workflow.graph import StageGraph, build
from diel.workflow.models import Violation, Workflow

AXES: dict[str, Any] = {name: {"values": [1, 2]} for name in "abc"}


def workflow(stages: dict[str, Any], axes: dict[str, Any] | None = None, **more: Any) -> Workflow:
    """A workflow of commands that do nothing."""
    filled = {name: {"command": ["true"], **stage} for name, stage in stages.items()}
    spec = {"diel": 1, "name": "w", "axes": AXES if axes is None else axes, "stages": filled, **more}
    return Workflow.model_validate(spec)


def built(stages: dict[str, Any], axes: dict[str, Any] | None = None, **more: Any) -> StageGraph:
    graph, flaws = build(workflow(stages, axes, **more))
    assert flaws == []
    return graph


def flaws_of(stages: dict[str, Any], axes: dict[str, Any] | None = None, **more: Any) -> list[Violation]:
    return build(workflow(stages, axes, **more))[1]
