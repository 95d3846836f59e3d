"""The tasks of a stage at a point of its axes, or picked by a search or loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from diel.axes.adaptive import Adaptive
from diel.errors import UsageError, did_you_mean
from diel.results.recorded import Recorded
from diel.spec import Choice


def picked_tasks(run: Recorded, stage: str, indices: Iterable[int], at: Mapping[str, Any]) -> list[int]:
    """Those of a stage's tasks that are `at` a point; the best of a search, the last of a loop.

    `at` has axis parameters by name; that of a search may be `best`, `pareto` or `{"top": 5}`, that of a loop
    `last`: picked once for each combination of the other axes, of what there is so far. Floats agree to nine
    digits, as in a workflow. Raises UsageError for what is no parameter of the stage.
    """
    known = run.parameters(stage)
    odd = [name for name in at if name not in known]
    if odd:
        hint = did_you_mean(odd[0], known) or f"it has: {', '.join(known) or 'none'}"
        raise UsageError(f"'{stage}' has no axis parameter '{odd[0]}'; {hint}")
    choices = {name: choice for name, given in at.items() if (choice := _choice(run, name, given))}
    points = {name: value for name, value in at.items() if name not in choices}
    found = [index for index in indices if not points or _agrees(run.point(stage, index), points)]
    for label, choice in sorted(choices.items(), key=lambda item: _rank(run, item[0], choices)):
        found = _chosen(run, stage, run.adaptive[label], choice, found)
    return found


def _choice(run: Recorded, name: str, given: Any) -> Choice | None:
    axis = run.adaptive.get(name)
    if axis is None:
        return None
    choice = axis.axis.choice(given)
    if choice is None or choice.word not in axis.axis.picks or choice.word == "previous":
        return None
    if (message := axis.axis.refusal(name, choice.word)) is not None:
        raise UsageError(f"{message}: pick {'best' if choice.word == 'pareto' else 'pareto'}")
    return choice


def _rank(run: Recorded, label: str, choices: Mapping[str, Choice]) -> int:
    """The rank of an axis: axes that are the context of another choose first."""
    return -sum(label in run.adaptive[other].judge.context for other in choices)


def _chosen(run: Recorded, stage: str, axis: Adaptive, choice: Choice, indices: Sequence[int]) -> list[int]:
    """Those at the points that a choice picks; the best first, where it picks the best few."""
    domain = run.domain(stage)
    assert domain is not None, "a stage with results has axes that are known"
    places = {index: domain.coordinates(index) for index in indices}
    if choice.word == "last":
        last: dict[tuple[int, ...], int] = {}
        for index, place in places.items():  # in the order of rounds: the last one with a result stays
            last[tuple(at for label, at in place.items() if label != axis.label)] = index
        return sorted(last.values())
    kept: list[tuple[int, int]] = []
    for index, place in places.items():
        picked = axis.chosen(place, choice)
        if place[axis.label] in picked:
            kept.append((picked.index(place[axis.label]), index))
    return [index for _, index in sorted(kept)] if choice.word == "top" else [index for _, index in kept]


def _agrees(point: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a task's point has these values."""
    for name, value in wanted.items():
        found = point[name]
        numbers = isinstance(found, int | float) and isinstance(value, int | float)
        if not (found == value or (numbers and math.isclose(found, value, rel_tol=1e-9))):
            return False
    return True
