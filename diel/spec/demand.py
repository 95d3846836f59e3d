"""A demand: what a task asks for where expressions say it, in `resources`, `timeout` and `retries`.

The model of a stage then holds what is the same for all its tasks: which keys are given, and those without
expressions. In place of the others stands the least that is valid.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Place = tuple[str, ...]
"""A key of a stage that an expression may stand at: `("resources", "ranks")`."""
PLACES = ("resources", "timeout", "retries", "environment")
"""The keys of a stage that say what its tasks ask for."""
_LEAST: dict[Place, Any] = {
    **{("resources", name): 1 for name in ("nodes", "ranks", "ranks_per_node", "cores_per_rank")},
    ("resources", "gpus_per_rank"): 0,
    ("resources", "memory"): "1B",
    ("resources", "walltime"): "8784h",
    ("timeout",): "8784h",
    ("retries",): 0,
    ("retries", "limit"): 0,
    ("retries", "backoff"): "0s",
}
"""Values in place of expressions; a name is left out. (A walltime is compared with `grace`.)"""
TOGETHER = {"nodes", "ranks", "ranks_per_node"}
"""Keys that must agree with each other: one expression leaves all three to the tasks."""


def demand_in(stage: Any, keys: Mapping[str, Collection[str]]) -> dict[Place, str]:
    """Return the texts with expressions, by key. `keys` are those of a stage, each with those below it."""
    demand: dict[Place, str] = {}
    for place in PLACES:
        value = stage.get(place) if isinstance(stage, dict) and place in keys else None
        if isinstance(value, str) and place != "resources":
            demand[(place,)] = value
        elif isinstance(value, dict):
            demand |= {(place, name): text for name, text in value.items() if name in keys[place]}
    return {key: text for key, text in demand.items() if isinstance(text, str) and "${{" in text}


def without_demand(stage: Mapping[str, Any], demand: Collection[Place]) -> dict[str, Any]:
    """Return a stage as a file writes it, with the least in place of its expressions."""
    static = with_values(stage, {key: _LEAST.get(key) for key in demand})
    resources = static.get("resources")
    if isinstance(resources, dict) and any(key[-1] in TOGETHER for key in demand):
        resources |= {name: 1 for name in TOGETHER if isinstance(resources.get(name), int)}
    return static


def with_values(written: Mapping[str, Any], values: Mapping[Place, Any]) -> dict[str, Any]:
    """Return a stage as a file writes it, with values for its demand; null leaves a key out."""
    filled = {place: {**value} if isinstance(value, dict) else value for place, value in written.items()}
    for key, value in values.items():
        part = filled if len(key) == 1 else filled[str(key[0])]
        if value is None:
            del part[key[-1]]
        else:
            part[key[-1]] = value
    return filled
