"""The environments of a stage's tasks, as the run made them, and their part of the cache key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from diel.environments.prepared import Prepared, read_prepared
from diel.expressions import parse
from diel.paths import RunPaths
from diel.spec import Stage


def environments_of_stage(stage: Stage, paths: RunPaths) -> Mapping[str, Prepared] | None:
    """Those that its tasks may name; None if they name none."""
    demanded = stage.chooses_environment
    if stage.environment is None and not demanded:
        return None
    made = read_prepared(paths.environments)
    return made if demanded else {name: one for name, one in made.items() if name == stage.environment}


def environment_part(stage: Stage, paths: RunPaths) -> dict[str, str]:
    """The part of the cache key that all tasks of a stage share; none if each has its own."""
    if stage.environment is None or stage.chooses_environment:
        return {}
    made = environments_of_stage(stage, paths) or {}
    return {"environment": made[stage.environment].digest} if made else {}


def keyed_by_task(stage: Stage, paths: RunPaths) -> Callable[[Mapping[str, Any]], dict[str, str]] | None:
    """What gives the environment's part of a task's key from its scope, where an expression chooses one: its
    name, for people, and the digest of what it is. None if all tasks have the same.
    """
    if not stage.chooses_environment:
        return None
    made, chosen = read_prepared(paths.environments), parse(stage.demand[("environment",)])

    def keyed(scope: Mapping[str, Any]) -> dict[str, str]:
        name = str(chosen.value(scope))
        digest = f"{name} {made[name].digest}" if name in made else name
        return {"its environment": digest}  # no axis has this name

    return keyed
