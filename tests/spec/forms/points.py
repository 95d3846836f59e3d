"""The points of an axis, as a workflow with it has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.workflow.models import Workflow
from diel.workflow.models.forms.axis import Points

HERE = Path()


def workflow(axis: dict[str, Any], **more: Any) -> Workflow:
    stages = {"s": {"command": ["true"], "over": ["x"]}}
    return Workflow.model_validate({"diel": 1, "name": "w", "axes": {"x": axis}, "stages": stages, **more})


def points_of(axis: dict[str, Any], folder: Path = HERE, **more: Any) -> Points:
    spec = workflow(axis, **more)
    known = spec.hyperparameters
    points = spec.axes["x"].points_of("x", known, folder)
    assert spec.axes["x"].size(known) in (None, len(points))
    return points


def column(points: Points, name: str = "x") -> list[Any]:
    place = points.parameters.index(name)
    return [points.values(index)[place] for index in range(len(points))]


def rows(points: Points) -> list[tuple[Any, ...]]:
    return [points.values(index) for index in range(len(points))]
