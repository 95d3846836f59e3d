"""Checks of axes: their files can be read, their tasks counted, and picked points exist."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from diel.check.flaws import Check
from diel.errors import DielError
from diel.graph import StageGraph
from diel.spec import MAX_POINTS, Axis

_SEARCHED = 100_000
"""Points that are compared with a picked one here; longer axes are searched when they run."""


def check_axes(found: Check) -> dict[str, int | None]:
    """The number of points of each axis: None for derived ones, the most for loops and searches."""
    counts: dict[str, int | None] = {}
    for label, axis in found.workflow.axes.items():
        counts[label] = _count(found, label, axis)
    for name, stage in found.workflow.stages.items():
        sizes = [counts.get(label) or 1 for label in stage.over]
        if prod(sizes) > MAX_POINTS:
            message = f"{prod(sizes):,} tasks; expected at most {MAX_POINTS:,} a stage"
            found.add(("stages", name, "over"), message)
    return counts


def _count(found: Check, label: str, axis: Axis) -> int | None:
    try:
        points = axis.listed(label, found.folder)
    except DielError as error:
        found.add(("axes", label, axis.word), str(error).removeprefix(f"axis '{label}': "))
        return None
    count = axis.size(found.workflow.hyperparameters)
    if points is None:
        return count
    found.points[label] = points
    count = len(points) if count is None else count
    if count == 0:
        found.add(("axes", label), "no points", "a stage over an empty axis would have no tasks")
    return count


def check_picks(found: Check, graph: StageGraph) -> None:
    """`at:` names points that exist."""
    for edge in graph.edges:
        for label, wanted in edge.picked.items():
            points = found.points.get(label)
            if points is None or len(points) > _SEARCHED:
                continue
            if points.find(wanted) is None:
                shown = [points.values(place) for place in range(min(len(points), 5))]
                values = [row[0] if len(row) == 1 else row for row in shown]
                more = ", …" if len(points) > len(shown) else ""
                hint = f"its points: {', '.join(map(str, values))}{more}"
                if isinstance(wanted, Mapping):
                    hint = f"its parameters: {', '.join(points.parameters)}; {hint}"
                found.add((*edge.key, "at", label), f"axis '{label}' has no point {wanted!r}", hint)
