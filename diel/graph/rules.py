"""What an edge or axis must keep to, beyond naming things that exist."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError
from typing import Any

from diel.errors import did_you_mean
from diel.graph.edge import Choice, Flaw, Key
from diel.graph.stage_graph import StageGraph
from diel.graph.uses import Use
from diel.spec import Axis, Search, Stage, Workflow
from diel.spec.model import found


def choice_of(workflow: Workflow, label: str, point: Any) -> Choice | None:
    """What a pick of `at` chooses while the run goes on; None where it names a point."""
    axis = workflow.axes.get(label)
    if axis is None or (axis.search is None and axis.loop is None):
        return None
    if isinstance(point, dict):
        count = point.get("top", 0)
        return Choice("top", int(count)) if _is_count(count) and len(point) == 1 else None
    return Choice(point) if point in (_OF_LOOPS if axis.loop is not None else _OF_SEARCHES) else None


_OF_LOOPS = ("last", "previous")
_OF_SEARCHES = ("best", "pareto")
_POINT = "name a point of it"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


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
        if point == "previous" and axis is not None and axis.loop is not None and not use.begins:
            hint = f"for instance {{from: {use.stage}.{use.output}, at: {{{label}: previous}}, initially: 0}}"
            flaws.append(Flaw(use.key, "`previous` needs `initially:`, the value in the first round", hint))
    return flaws


def _pick_flaws(label: str, axis: Axis, point: Any, inside: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with a pick: message and hint. `inside` tells whether the reader runs over the axis."""
    top = isinstance(point, dict) and "top" in point and "top" not in axis.given_parameters
    word = "top" if top else point
    if isinstance(word, str) and word in (*_OF_SEARCHES, "top"):
        if axis.search is not None:
            yield from _trial_flaws(label, axis.search, point, inside)
        elif axis.source is None:
            instead = "take `last`, or the number of a round" if axis.loop is not None else _POINT
            yield f"`{word}` picks a trial of a search, and '{label}' is no search", instead
    elif isinstance(word, str) and word in _OF_LOOPS:
        if axis.loop is None:
            instead = "take `best`, or the number of a trial" if axis.search is not None else _POINT
            yield f"`{word}` picks a round of a loop, and '{label}' is no loop", instead
        elif word == "previous" and not inside:
            hint = f"add {label} to its `over`, or take `last`"
            yield f"`previous` is for stages that run over '{label}' themselves", hint
    elif axis.search is not None or axis.loop is not None:
        yield from _number_flaws(label, axis, point)


def _trial_flaws(label: str, search: Search, point: Any, inside: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with `best`, `pareto` or `top` of a search."""
    top = isinstance(point, dict)
    if top and (not _is_count(point["top"]) or len(point) > 1):
        told = ", ".join(f"{key}: {value}" for key, value in point.items())
        yield f"expected {{top: N}} with a whole number above 0, found {{{told}}}", "for instance {top: 5}"
    elif inside:
        hint = f"which trial is best is known after the last: drop {label} from its `over`"
        yield f"`{'top' if top else point}` is for stages that do not run over '{label}' themselves", hint
    elif point == "pareto" and len(search.objectives) == 1:
        yield f"'{label}' has one objective, and so one best trial", "write best, or {top: N}"
    elif point != "pareto" and len(search.objectives) > 1:
        yield f"'{label}' has several objectives, and so no best trial", "write pareto"


def _number_flaws(label: str, axis: Axis, point: Any) -> Iterator[tuple[str, str]]:
    """A point of a search or loop is picked by its number, counted from 0."""
    if isinstance(point, dict) and set(point) == {label}:
        point = point[label]
    what, words = ("round", _OF_LOOPS) if axis.loop is not None else ("trial", (*_OF_SEARCHES, "{top: N}"))
    size = axis.loop.max if axis.loop is not None else axis.search.trials if axis.search is not None else None
    if not isinstance(point, int) or isinstance(point, bool):
        hint = did_you_mean(point, words) if isinstance(point, str) else ""
        meant = _MEANT.get(str(point).lower())
        hint = f"write {meant}" if meant in (*words, "0") else hint
        yield f"expected {', '.join(words)} or the number of a {what}, found {found(point)}", hint
    elif point < 0 or (size is not None and point >= size):
        last = "" if size is None else f" to {size - 1}"
        hint = "`last` is the last one" if axis.loop is not None else "`best` is the best one"
        yield f"expected the number of a {what}, 0{last or ' or above'}; found {point}", hint


_MEANT = {
    "first": "0",
    "initial": "0",
    "prev": "previous",
    "before": "previous",
    "final": "last",
    "latest": "last",
    "optimal": "best",
    "optimum": "best",
    "min": "best",
    "max": "best",
    "front": "pareto",
}
"""Other words for picks."""


def check_axes(workflow: Workflow, name: str, stage: Stage) -> Iterator[Flaw]:
    owners: dict[str, str] = {}
    for number, label in enumerate(stage.over):
        key: Key = ("stages", name, "over", number)
        if label not in workflow.axes:
            hint = did_you_mean(label, workflow.axes) or f"axes: {', '.join(workflow.axes) or 'none'}"
            yield Flaw(key, f"no axis '{label}'", hint)
            continue
        for parameter in parameters_of(workflow, label) or (label,):
            if parameter in owners and owners[parameter] != label:
                message = f"axes '{owners[parameter]}' and '{label}' both give the parameter '{parameter}'"
                yield Flaw(key, message, "rename one of them")
            owners.setdefault(parameter, label)


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
