"""What an edge or axis must keep to, beyond naming things that exist."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError
from typing import Any

from diel.errors import did_you_mean
from diel.graph.edge import Flaw, Key
from diel.graph.stage_graph import StageGraph
from diel.graph.uses import Use
from diel.spec import Axis, Choice, Loop, Search, Stage, Workflow


def choice_of(workflow: Workflow, label: str, point: Any) -> Choice | None:
    """What a pick of `at` chooses while the run goes on; None where it names a point."""
    axis = workflow.axes.get(label)
    return None if axis is None else axis.choice(point)


def check_at(workflow: Workflow, use: Use, name: str) -> list[Flaw]:
    """What `at` picks is there. `name` is the stage that reads."""
    flaws = []
    upstream, downstream = workflow.stages[use.stage].over, workflow.stages[name].over
    for label, point in use.at.items():
        key = (*use.key, "at", label)
        if label not in upstream:
            hint = did_you_mean(label, upstream) or f"its axes: {', '.join(upstream) or 'none'}"
            flaws.append(Flaw(key, f"'{use.stage}' does not run over an axis '{label}'", hint))
            continue
        axis = workflow.axes.get(label)
        if axis is not None:
            flaws += [Flaw(key, *said) for said in _pick_flaws(label, axis, point, label in downstream)]
        if point == "previous" and axis is not None and point in axis.picks and not use.begins:
            hint = f"for instance {{from: {use.stage}.{use.output}, at: {{{label}: previous}}, initially: 0}}"
            flaws.append(Flaw(use.key, "`previous` needs `initially:`, the value in the first round", hint))
    return flaws


def _pick_flaws(label: str, axis: Axis, point: Any, inside: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with a pick: message and hint. `inside` tells whether the reader runs over the axis."""
    top = isinstance(point, dict) and "top" in point and "top" not in (axis.gives or ())
    word = "top" if top else point
    kind: type[Axis] | None = next((kind for kind in (Search, Loop) if word in kind.picks), None)
    if kind is None or word in axis.picks:
        yield from axis.pick_flaws(label, point, inside)
    elif axis.source is None or kind.in_turn:
        yield (
            f"`{word}` picks a {kind.point} of a {kind.word}, and '{label}' is no {kind.word}",
            axis.pick_hint,
        )


def check_axes(workflow: Workflow, name: str, stage: Stage) -> Iterator[Flaw]:
    owners: dict[str, str] = {}
    for number, label in enumerate(stage.over):
        key: Key = ("stages", name, "over", number)
        if label not in workflow.axes:
            hint = did_you_mean(label, workflow.axes) or f"axes: {', '.join(workflow.axes) or 'none'}"
            yield Flaw(key, f"no axis '{label}'", hint)
            continue
        for parameter in workflow.axes[label].parameters_of(label) or (label,):
            if parameter in owners and owners[parameter] != label:
                message = f"axes '{owners[parameter]}' and '{label}' both give the parameter '{parameter}'"
                yield Flaw(key, message, "rename one of them")
            owners.setdefault(parameter, label)


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
