"""The common facts of some tasks of a stage: values of which they are all the tasks."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

from diel.base.errors import counted
from diel.base.values import point_text
from diel.tasks.points.domain import Domain
from diel.workflow.models.forms.axis import Points

MOST = 50_000
"""Tasks that are looked at: half a second."""
COMBINED = 3
"""Most parameters that are combined."""
TRIED = 20
"""Values whose tasks are counted, the most frequent ones first."""
SHOWN = 3

Fact = tuple[str, str, str]
"""An axis, one of its parameters, and a value as JSON."""


def shared(domain: Domain, points: Mapping[str, Points], tasks: Sequence[int]) -> str:
    """Say what only these tasks of a stage share: `all 4 with depth=2.5, seed=1`; empty if nothing."""
    if not 1 < len(tasks) <= MOST or not points:
        return ""
    if len(tasks) == domain.size:
        return f"all {len(tasks):,} tasks"
    facts = {task: _facts(domain, points, task) for task in tasks}
    remaining, lines = set(tasks), []
    for size in range(1, COMBINED + 1):
        counts = Counter(group for own in facts.values() for group in combinations(own, size))
        for group, count in counts.most_common(TRIED):
            theirs = {task for task in remaining if {*group} <= {*facts[task]}} if count > 1 else set()
            if theirs and count == _total(domain, points, group):
                lines.append(f"all {count:,} with {_text(group)}")
                remaining -= theirs
        if not remaining or len(tasks) * len(points) ** size > MOST:
            break
    if not lines:
        common = [fact for fact in facts[tasks[0]] if all(fact in own for own in facts.values())]
        total = _total(domain, points, common) if common else domain.size
        if total == domain.size:
            return ""
        return f"each with {_text(common)} ({len(tasks):,} of the {total:,} such tasks)"
    rest = len(lines) - SHOWN
    tail = [f"{rest:,} more such groups"] * (rest > 0) + [counted(len(remaining), "other")] * bool(remaining)
    return "; ".join([*lines[:SHOWN], *tail])


def _facts(domain: Domain, points: Mapping[str, Points], task: int) -> list[Fact]:
    places = ((axis, place) for axis, place in domain.coordinates(task).items() if axis in points)
    return [
        (axis, name, json.dumps(value))
        for axis, place in places
        for name, value in zip(points[axis].parameters, points[axis].values(place), strict=True)
        if len(points[axis]) > 1
    ]


def _total(domain: Domain, points: Mapping[str, Points], facts: Sequence[Fact]) -> int:
    """Return how many tasks of the stage have all these values."""
    places: dict[str, set[int]] = {}
    for axis, name, value in facts:
        matches = {*points[axis].places(name, json.loads(value))}
        places[axis] = places.get(axis, matches) & matches
    return sum(domain.count(dict(zip(places, row, strict=True))) for row in product(*places.values()))


def _text(facts: Sequence[Fact]) -> str:
    values: dict[str, Any] = {name: json.loads(value) for _, name, value in facts}
    return point_text(values)
