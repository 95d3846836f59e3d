"""Equal tasks of one run share a result: those of trials at the same point, where nothing reads their number.

The first of them runs, the others wait for its end; without a result the next one runs. All of it follows
from the journal.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from diel.attempt.bundle import Request
from diel.controller.stages import Stages
from diel.errors import DielError
from diel.expressions import ExpressionError
from diel.project.cache import is_whole
from diel.project.runs import identity_of_run
from diel.states import TaskState
from diel.tasks.ledger import Ledger
from diel.tasks.results import artifact_home
from diel.tasks.stage_run import StageRun

if TYPE_CHECKING:
    from diel.journal.records import Result


class EqualTasks:
    """Which task of a run has made, or makes, the result that belongs to a key."""

    def __init__(self, stages: Stages, ledger: Ledger) -> None:
        self._stages = stages
        self._ledger = ledger
        self._made: dict[str, dict[str, int]] = {}
        """By stage: the tasks that have a result, by its key."""
        self._makers: dict[str, dict[str, int]] = {}
        """By stage: the tasks that are to make one, by its key."""
        self._waiting: dict[tuple[str, int], list[int]] = {}
        """By such a task, those that wait for it."""
        if any(recipe.shares for recipe in stages.recipes.values()):
            stages.watch_ends(self._note_end)

    def find(self, stage: StageRun, key: str) -> Result | None:
        """Return the result of an equal task, with its `run` and its index as `same`; None without one."""
        if not self._stages.recipes[stage.name].shares:
            return None
        if stage.name not in self._made:
            self._made[stage.name] = {}
            for good in stage.history.good():
                self._keep(stage, good)
        index = self._made[stage.name].get(key)
        if index is None or not stage.history.is_good(index):
            return None
        found = self._ledger.results.record(stage.name, index).copy()
        root = self._ledger.paths.root
        if "run" not in found:
            found["run"], found["run_id"] = root.name, identity_of_run(root)
        found["same"] = index
        return found if is_whole(found, artifact_home(found, root)) else None

    def _keep(self, stage: StageRun, index: int) -> None:
        self._made[stage.name].setdefault(self._ledger.results.record(stage.name, index)["key"], index)

    def awaits(self, stage: StageRun, task: Request) -> bool:
        """Whether an equal task is under way; if so, this one is looked at again at the end of that."""
        if not self._stages.recipes[stage.name].shares or task.index in stage.history.gone:
            return False
        if stage.name not in self._makers:
            self._makers[stage.name] = self._adopted(stage)
        makers = self._makers[stage.name]
        maker = makers.setdefault(task.key, task.index)
        if maker == task.index or stage.history.state(maker).ended:
            makers[task.key] = task.index
            return False
        self._waiting.setdefault((stage.name, maker), []).append(task.index)
        return True

    def _adopted(self, stage: StageRun) -> dict[str, int]:
        """What runs since an earlier controller handed it out."""
        found: dict[str, int] = {}
        for index, attempt in stage.history.under_way.items():
            if attempt.state in (TaskState.QUEUED, TaskState.RUNNING):
                with suppress(DielError, ExpressionError):  # what it read is gone
                    found[self._stages.recipes[stage.name].resolve(index).key] = index
        return found

    def _note_end(self, stage: StageRun, index: int) -> None:
        if stage.name in self._made and stage.history.is_good(index):
            self._keep(stage, index)
        if waiting := self._waiting.pop((stage.name, index), None):
            stage.look_at(waiting)
