"""Stops early: a stage after `max_failures`, a run with `--fail-fast`, and one whose first tasks fail alike.

The last is held, not stopped: a user may let it go on while other stages do; its tasks are left out when
nothing else is left to do. The next controller drops these verdicts, and counts anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from diel.blocks.dispatcher import Dispatcher
from diel.check.imports import missing
from diel.controller.finder import Finder
from diel.controller.stages import Stages
from diel.errors import counted, likeness
from diel.journal.stage_history import ranges
from diel.project.requests import is_anyway
from diel.spec.policy import most_failures
from diel.states import FailureClass, TaskState
from diel.tasks.ledger import Ledger
from diel.tasks.stage_run import StageRun
from diel.tasks.watched import WATCHED

if TYPE_CHECKING:
    from diel.attempt.bundle import BundleReport
    from diel.journal.records import Said
    from diel.plan import Plan

FEW = 4
"""A stage is not held for fewer tasks than this, nor for fewer than twice those that failed."""


@dataclass
class Stopping:
    """Decides whether failures stop a stage or the run."""

    _stages: Stages
    _ledger: Ledger
    _finder: Finder
    _dispatcher: Dispatcher
    _fail_fast: bool
    over: str = ""
    """The rule by which nothing more of the run is begun; empty if there is more."""
    _alike: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By stage, how its first task failed, and how many failed so; empty once one did otherwise."""
    _beside: dict[str, int] = field(default_factory=dict)

    def note(self, stage: StageRun, index: int, said: Said) -> None:
        """A task failed for good."""
        if self.over:
            return
        may_be_tolerated = bool(stage.adaptive) or any(
            link.edge.min_success < 1 for link in self._stages.out_of[stage.name]
        )
        if self._fail_fast and not may_be_tolerated:
            self.over = "fail_fast"
            self._tell(stage, self.over, f"{stage.task(index)} failed, and the run was to stop at that")
            return
        if stage.adaptive or stage.stopped:
            return
        if said["class"] == FailureClass.CHANGED and said["message"].startswith(WATCHED):
            self._tell(stage, "changed", said["message"])
            self._finder.leave(stage, "changed")
            return
        most = most_failures(stage.spec.max_failures, stage.size)
        failed = stage.history.states.count(TaskState.FAILED) - len(stage.history.tolerated)
        if most is not None and failed > most:
            given = stage.spec.max_failures
            self._tell(
                stage, "max_failures", f"{counted(failed, 'task')} failed, and `max_failures` is {given}"
            )
            self._finder.leave(stage, "max_failures")
        elif self._are_all_alike(stage, said) and not (stage.held or is_anyway(self._ledger.paths)):
            count = self._alike[stage.name][1]
            self._tell(
                stage, "hold", f"its first {count:,} tasks failed alike ({said['class']}): {_way(said)}"
            )
            self._finder.put_back(stage)
            stage.held = True

    def lack(self, plan: Plan, report: BundleReport) -> None:
        """A worker lacks packages that modules of its pool import: the run ends before it runs for them."""
        history = self._ledger.history
        worker = history.workers[report.segment]
        pool = history.blocks[worker["block"]]["pool"]
        there = [name for shape, names in plan.shapes.items() if shape.pool == pool for name in names]
        found: dict[str, list[str]] = {}
        for name, said, mend in missing(plan.checked, there, set(report.missing).intersection, report.python):
            found.setdefault(name, []).append(f"{said} on {worker['node']}: `{mend}`")
        for name, why in found.items():
            if not self._stages.runs[name].complete:
                self.over = self.over or "imports"
                self._tell(self._stages.runs[name], "imports", "; ".join(dict.fromkeys(why)))

    def _tell(self, stage: StageRun, rule: str, why: str) -> None:
        self._ledger.append({"event": "held", "stage": stage.name, "rule": rule, "why": why})

    def _are_all_alike(self, stage: StageRun, said: Said) -> bool:
        """Whether as many have failed as ran side by side, all of them alike, and enough are left."""
        ends = self._works([(stage.name, 0)])
        began = "attempt" in said  # what could not even be made costs nothing, and fails alone
        if not (stage.spec.hold and ends and began) or stage.name in self._stages.together:
            return False
        how = f"{said['class']} {said.get('exit_code')} {likeness(_way(said))}"
        first, count = self._alike.get(stage.name, (how, 0))
        if how != first or _is_good(stage):
            self._alike[stage.name] = "", 0
            self._let_go([stage] if stage.held else [])
            return False
        self._alike[stage.name] = how, count + 1
        tasks = self._dispatcher.in_flight.items()
        mine = {task.bundle or index for (name, index), task in tasks if name == stage.name}
        bundles = len(mine)  # each runs its tasks in turn, and hands back those not begun
        width = self._dispatcher.backend.width(self._dispatcher.shape(stage))
        beside = self._beside[stage.name] = max(self._beside.get(stage.name, 2), min(1 + bundles, width))
        left = stage.size - stage.ended - 1 - bundles
        return count + 1 >= beside and left >= max(FEW, 2 * (count + 1))

    # --- what was held ------------------------------------------------------------------------------

    @property
    def held(self) -> list[StageRun]:
        return [stage for stage in self._stages.runs.values() if stage.held]

    def release(self) -> None:
        """Let held stages go on, if a user asked for that."""
        if self.held and is_anyway(self._ledger.paths):
            self._let_go(self.held)

    def _let_go(self, stages: Iterable[StageRun]) -> None:
        for stage in stages:
            stage.held = False
            self._tell(stage, "hold", "")

    def _give_up(self) -> bool:
        """Leave out what is held once nothing else can be done, and return whether anything was. A stage goes
        on where a task was good that was under way when it was held."""
        self._let_go(filter(_is_good, self.held))
        held = self.held
        waits = not held or self._works(self._dispatcher.in_flight)
        if waits or any(map(self._finder.has_work, self._stages.runs.values())):
            return False
        for stage in held:
            self._finder.leave(stage, "hold")
        return True

    def is_over(self) -> bool | None:
        """Whether what was begun has ended, but for what others ask; None if there is more to begin."""
        if self.over:
            return not self._works(self._dispatcher.in_flight)
        return False if self._give_up() else None

    def _works(self, tasks: Collection[tuple[str, int]]) -> bool:
        """Whether any of these tasks ends by itself."""
        serving = self._stages.serving
        return bool(tasks) and (serving is None or serving.are_others(tasks))

    def leave_all(self) -> None:
        """Leave out what was not begun."""
        for stage in self._stages.runs.values():
            left = ranges(i for i in range(stage.size) if not stage.history.state(i).ended)
            if left:
                self._ledger.skip(stage, left, self.over, "")


def _is_good(stage: StageRun) -> bool:
    return any(map(stage.history.states.count, (TaskState.DONE, TaskState.CACHED)))


def _way(said: Said) -> str:
    """How a task failed, in a line."""
    cause = said.get("headline", "")
    return f"{said['message']}: {cause}" if cause and cause not in said["message"] else said["message"]
