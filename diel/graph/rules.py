"""What an edge or axis must keep to, beyond naming things that exist."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError

from diel.errors import did_you_mean
from diel.expressions import ExpressionError, parse_expression
from diel.graph.edge import Flaw, Key
from diel.graph.stage_graph import StageGraph
from diel.graph.uses import Use
from diel.spec import Axis, Stage, Workflow


def check_at(workflow: Workflow, use: Use, upstream: tuple[str, ...]) -> list[Flaw]:
    flaws = []
    for label, point in use.at.items():
        key = (*use.key, "at", label)
        if label not in upstream:
            hint = did_you_mean(label, upstream) or f"its axes: {', '.join(upstream) or 'none'}"
            flaws.append(Flaw(key, f"'{use.stage}' does not run over an axis '{label}'", hint))
            continue
        axis = workflow.axes.get(label)
        if axis is None:
            continue
        if point in ("last", "previous") and axis.loop is None:
            flaws.append(Flaw(key, f"`{point}` picks a round of a loop, and '{label}' is no loop"))
        if point in ("best", "pareto") and axis.search is None:
            flaws.append(Flaw(key, f"`{point}` picks a trial of a search, and '{label}' is no search"))
        if point == "previous" and use.initially is None:
            flaws.append(Flaw(use.key, "`previous` needs `initially:`, the value in the first round"))
    return flaws


def check_axes(workflow: Workflow, name: str, stage: Stage) -> list[Flaw]:
    flaws = []
    owners: dict[str, str] = {}
    for number, label in enumerate(stage.over):
        key: Key = ("stages", name, "over", number)
        if label not in workflow.axes:
            hint = did_you_mean(label, workflow.axes) or f"axes: {', '.join(workflow.axes) or 'none'}"
            flaws.append(Flaw(key, f"no axis '{label}'", hint))
            continue
        for parameter in parameters_of(workflow, label) or (label,):
            if parameter in owners and owners[parameter] != label:
                message = f"axes '{owners[parameter]}' and '{label}' both give the parameter '{parameter}'"
                flaws.append(Flaw(key, message, "rename one of them"))
            owners.setdefault(parameter, label)
    return flaws


def parameters_of(workflow: Workflow, label: str) -> tuple[str, ...] | None:
    """The parameters that an axis gives, or None where they are known only with its points."""
    axis = workflow.axes[label]
    if axis.zip is not None:
        return tuple(axis.zip)
    if axis.sample is not None:
        return tuple(axis.sample.parameters)
    if axis.file is not None:
        return axis.file.columns
    if axis.source is not None:
        return axis.columns
    return (label,)


def check_cycles(graph: StageGraph) -> list[Flaw]:
    """Names the stages that wait for each other."""
    try:
        _ = graph.order
    except CycleError:
        from diel.graph.digraph import cycles  # slow to import: only where there is one

        return [_cycle_flaw(graph, names) for names in cycles(graph.workflow, graph.edges)]
    return []


def _cycle_flaw(graph: StageGraph, names: list[str]) -> Flaw:
    last, first = names[-1], names[0]
    guilty = next(e for e in graph.into(first) if e.upstream == last and not e.follows)
    return Flaw(
        guilty.key,
        f"the stages wait for each other: {' -> '.join([*names, first])}",
        "take one of these edges out, or make it a loop axis with `at: {AXIS: previous}`",
    )


def check_adaptive(workflow: Workflow) -> list[Flaw]:
    """A search or loop runs once a combination of the other axes of the stage that it is told by."""
    flaws: list[Flaw] = []
    for label, axis in workflow.axes.items():
        for key, reference in _metrics(label, axis):
            stage = workflow.stages.get(reference[0])
            if stage is None:
                hint = did_you_mean(reference[0], workflow.stages)
                flaws.append(Flaw(key, f"no stage '{reference[0]}'", hint))
            elif label not in stage.over:
                message = f"'{reference[0]}' does not run over '{label}', so it cannot judge it"
                flaws.append(Flaw(key, message))
            else:
                flaws += _check_context(workflow, label, reference[0], stage)
    return flaws


def _check_context(workflow: Workflow, label: str, judge: str, stage: Stage) -> list[Flaw]:
    others = [axis for axis in stage.over if axis != label]
    return [
        Flaw(
            ("stages", name, "over"),
            f"'{label}' runs once for each {', '.join(missing)} (the axes of '{judge}'), "
            f"and '{name}' lacks {', '.join(missing)}",
            "add the axis, or judge by a stage without it",
        )
        for name, other in workflow.stages.items()
        if label in other.over and (missing := [axis for axis in others if axis not in other.over])
    ]


def _metrics(label: str, axis: Axis) -> Iterator[tuple[Key, tuple[str, ...]]]:
    if axis.search is not None:
        for word in ("minimize", "maximize"):
            given = getattr(axis.search, word)
            for reference in [given] if isinstance(given, str) else given or []:
                yield ("axes", label, "search", word), tuple(reference.split("."))
    until = axis.loop.until if axis.loop is not None else None
    if until is not None:
        try:
            references = parse_expression(until).references
        except ExpressionError:
            return
        for name in sorted(references):
            if len(name) > 1 and name[0] not in ("hp", "run"):
                yield ("axes", label, "loop", "until"), name
