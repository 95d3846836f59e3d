"""The environments of a stage's tasks, as the run made them, and their part of the cache key."""

from __future__ import annotations

from collections.abc import Mapping

from diel.environments.prepared import Prepared, read_prepared
from diel.paths import RunPaths
from diel.spec import Stage


def environments_of_stage(stage: Stage, paths: RunPaths) -> Mapping[str, Prepared] | None:
    """Those that its tasks name; None if they name none."""
    if stage.environment is None:
        return None
    made = read_prepared(paths.environments)
    return {stage.environment: made[stage.environment]} if stage.environment in made else None


def environment_part(stage: Stage, paths: RunPaths) -> dict[str, str]:
    """The part of the cache key that all tasks of a stage share; none without an environment."""
    made = environments_of_stage(stage, paths)
    return {} if made is None else {"environment": made[str(stage.environment)].digest}
