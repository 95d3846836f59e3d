"""The environments of a stage's tasks, as the run made them, and their part of the cache key."""

from __future__ import annotations

from collections.abc import Mapping

from diel.environments.prepared import Prepared, read_prepared
from diel.paths import RunPaths
from diel.spec import Stage
from diel.tasks.stage_run import StageRun


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


class Choosing:
    """The environment of each task of a stage, where an expression chooses it."""

    def __init__(self, run: StageRun, paths: RunPaths) -> None:
        self._run = run
        self._paths = paths
        self._made: Mapping[str, Prepared] = {}

    def name(self, index: int) -> str | None:
        """Raises Misfit where the expression gives no name that is known."""
        return self._run.spec_of(index).environment

    def keyed(self, index: int) -> dict[str, str]:
        """What enters a task's key: the name, for people, and the digest of what it is."""
        name = self.name(index)
        if name is None:
            return {}
        self._made = self._made or read_prepared(self._paths.environments)
        return {"environment": f"{name} {self._made[name].digest}" if name in self._made else name}


def choosing_of(run: StageRun, paths: RunPaths) -> Choosing | None:
    """What chooses the environment of its tasks; None if all have the same."""
    return Choosing(run, paths) if run.spec.chooses_environment else None
