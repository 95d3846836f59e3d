"""What failures do to a run: they stop a stage or all of it early, are tolerated, or fail it in the end.

A stage stops after `max_failures`, a run with `--fail-fast`. A stage whose first tasks fail alike is held,
not stopped: a user may let it go on while other stages do; its tasks are left out when nothing else is left
to do. The next controller drops these verdicts, and counts anew. A failure is tolerated where everything that
depends on it went on without, as the workflow allows: that is worked out when all tasks have ended.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from diel.backends.blocks.dispatcher import Dispatcher
from diel.base.errors import counted, likeness
from diel.base.states import FailureClass, TaskState
from diel.controller.finder import Finder
from diel.controller.stages import Stages
from diel.planning.check.imports import missing
from diel.planning.plan import Plan
from diel.store.journal.axis_history import Context
from diel.store.journal.records import Said
from diel.store.journal.stage_history import ranges
from diel.store.project.requests import is_anyway
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link, Verdict
from diel.tasks.points.adaptive import Adaptive
from diel.tasks.points.domain import Group
from diel.tasks.selection import ChoosingLink
from diel.tasks.stage_run import StageRun
from diel.tasks.texts import WATCHED
from diel.worker.attempt.bundle import BundleReport
from diel.workflow.models.policy import most_failures

FEW = 4
"""A stage is not held for fewer tasks than this, nor for fewer than twice those that failed."""


@dataclass
class StopPolicy:
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

    def note(self, stage: StageRun, index: int, verdict: Said) -> None:
        """Note a task that failed for good."""
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
        if verdict["class"] == FailureClass.CHANGED and verdict["message"].startswith(WATCHED):
            self._tell(stage, "changed", verdict["message"])
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
        elif self._are_all_alike(stage, verdict) and not (stage.held or is_anyway(self._ledger.paths)):
            count = self._alike[stage.name][1]
            self._tell(
                stage, "hold", f"its first {count:,} tasks failed alike ({verdict['class']}): {_way(verdict)}"
            )
            self._finder.put_back(stage)
            stage.held = True

    def lack(self, plan: Plan, report: BundleReport) -> None:
        """End the run where a worker lacks packages that its pool's modules import, before any runs."""
        history = self._ledger.history
        worker = history.workers[report.segment]
        pool = history.blocks[worker["block"]]["pool"]
        there = [name for shape, names in plan.shapes.items() if shape.pool == pool for name in names]
        reasons: dict[str, list[str]] = {}
        for name, message, mend in missing(
            plan.checked, there, set(report.missing).intersection, report.python
        ):
            reasons.setdefault(name, []).append(f"{message} on {worker['node']}: `{mend}`")
        for name, why in reasons.items():
            if not self._stages.runs[name].complete:
                self.over = self.over or "imports"
                self._tell(self._stages.runs[name], "imports", "; ".join(dict.fromkeys(why)))

    def _tell(self, stage: StageRun, rule: str, why: str) -> None:
        self._ledger.append({"event": "held", "stage": stage.name, "rule": rule, "why": why})

    def _are_all_alike(self, stage: StageRun, verdict: Said) -> bool:
        """Return whether as many have failed as ran side by side, all of them alike, and enough are left."""
        ends = self._works([(stage.name, 0)])
        began = "attempt" in verdict  # what could not even be made costs nothing, and fails alone
        if not (stage.spec.hold and ends and began) or stage.name in self._stages.together:
            return False
        how = f"{verdict['class']} {verdict.get('exit_code')} {likeness(_way(verdict))}"
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
        unended = stage.size - stage.ended - 1 - bundles
        return count + 1 >= beside and unended >= max(FEW, 2 * (count + 1))

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
        """Return whether what was begun has ended, but for services; None if there is more to begin."""
        if self.over:
            return not self._works(self._dispatcher.in_flight)
        return False if self._give_up() else None

    def _works(self, tasks: Collection[tuple[str, int]]) -> bool:
        """Return whether any of these tasks ends by itself."""
        serving = self._stages.serving
        return bool(tasks) and (serving is None or serving.are_others(tasks))

    def leave_all(self) -> None:
        """Leave out what was not begun."""
        for stage in self._stages.runs.values():
            unended = ranges(i for i in range(stage.size) if not stage.history.state(i).ended)
            if unended:
                self._ledger.skip(stage, unended, self.over, "")


def _is_good(stage: StageRun) -> bool:
    return any(map(stage.history.states.count, (TaskState.DONE, TaskState.CACHED)))


def _way(verdict: Said) -> str:
    """Return how a task failed, in a line."""
    cause = verdict.get("headline", "")
    return (
        f"{verdict['message']}: {cause}" if cause and cause not in verdict["message"] else verdict["message"]
    )


Lost = tuple[str, int | Context]
"""A loss: a task, by stage and index, or a search or loop, by axis and context."""

Finding = Generator[Lost, str | None, str]
"""Finds what tolerates a loss, empty if nothing does; asks the same about the losses behind it."""


def has_failed(stages: Stages, ledger: Ledger) -> bool:
    """Return whether any task, search or loop has failed and nothing tolerates it; record what does."""
    failed = False
    tolerance = _Tolerance(stages)
    for axis in stages.adaptive.values():
        for context, course in axis.history.courses.items():
            cause = tolerance.cause((axis.label, context)) if course.failed else ""
            failed |= course.failed and not cause
            if cause:
                ledger.append(
                    {"event": "spared", "axis": axis.label, "context": list(context), "cause": cause}
                )
    for stage in stages.runs.values():
        for cause, tasks in tolerance.failures(stage).items():
            ledger.append({"event": "tolerated", "stage": stage.name, "tasks": ranges(tasks), "cause": cause})
        failed |= stage.history.counts()["failed"] > len(stage.history.tolerated)
    return failed


class _Tolerance:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages.runs
        self._recipes = stages.recipes
        self._axes = stages.adaptive
        self._out_of = stages.out_of
        self._known: dict[Lost, str] = {}
        self._looked: dict[tuple[int, Group], tuple[Verdict, frozenset[int]]] = {}

    def failures(self, stage: StageRun) -> dict[str, list[int]]:
        by_cause: dict[str, list[int]] = {}
        for index in range(stage.size if stage.history.states.count(TaskState.FAILED) else 0):
            if stage.history.state(index) == TaskState.FAILED and (cause := self.cause((stage.name, index))):
                by_cause.setdefault(cause, []).append(index)
        return by_cause

    def cause(self, lost: Lost) -> str:
        """Return what tolerates a loss; empty if nothing does. That rests on the tasks behind it, which are
        kept on a stack: a chain of stages may be longer than Python lets functions call each other."""
        pending = {lost: self._find(*lost)}
        answer: str | None = None
        while pending:
            last, finding = next(reversed(pending.items()))
            try:
                behind = finding.send(answer)
            except StopIteration as found:
                self._known[last] = answer = found.value
                del pending[last]
            else:
                answer = (
                    "" if behind in pending else self._known.get(behind)
                )  # what is renewed may read itself
                if answer is None:
                    pending[behind] = self._find(*behind)
        return self._known[lost]

    def _find(self, name: str, place: int | Context) -> Finding:
        if isinstance(place, int):
            stage = self._stages[name]
            reading = ((link, place) for link in self._out_of[name])
            return self._finding(stage.adaptive, stage.domain.coordinates(place), reading)
        axis = self._axes[name]
        coordinates = dict(zip(axis.judge.context, place, strict=True))
        outer = [self._axes[label] for label in coordinates if label in self._axes]
        return self._finding(outer, coordinates, self._choosing(axis, coordinates))

    def _finding(
        self, axes: Iterable[Adaptive], coordinates: Mapping[str, int], reading: Iterable[tuple[Link, int]]
    ) -> Finding:
        """Yield what tolerates a loss at a point of some searches and loops, read along some edges. Each edge
        must tolerate it; the search counts most that was decided without the point, or failed with it."""
        causes: list[str] = []
        for link, index in reading:
            by_readers = yield from self._by(link, index)
            if by_readers is None:
                return ""
            causes.append(by_readers)
        for axis in axes:
            if axis.went_on_without(coordinates):
                return f"search '{axis.label}'"
            if axis.is_lost(coordinates) and (cause := (yield axis.label, axis.context(coordinates))):
                return cause
        return next(filter(None, causes), "")

    def _choosing(self, axis: Adaptive, coordinates: Mapping[str, int]) -> Iterator[tuple[Link, int]]:
        """Yield the edges that pick points of a search or loop from outside, with the tasks at its first."""
        for link in (link for links in self._out_of.values() for link in links):
            inside = axis.label in link.down.spec.over
            if axis.label in link.edge.chosen and not inside and link.up.known:
                for index in link.up.domain.matching({**coordinates, axis.label: 0}):
                    yield link, index

    def _by(self, link: Link, index: int) -> Generator[Lost, str | None, str | None]:
        """Yield what tolerates the loss along one edge: empty if none is met, None if it is not tolerated."""
        if not link.down.known:
            return None
        if self._is_spared(link, index):
            return f"`min_success` of '{link.down.name}'"
        cause: str | None = ""
        for reader in self._met(link, index):
            if link.down.has_lost(reader):
                cause = yield link.down.name, reader
                if not cause:
                    return None
        return cause

    def _is_spared(self, link: Link, index: int) -> bool:
        """Return whether those that read a task went on without it, by `min_success`."""
        if link.edge.min_success == 1:
            return False
        met, meeting = self._met(link, index), self._recipes[link.down.name].meeting
        several = link.edge.chosen or meeting
        readers = list(met if several else islice(met, 1))  # else all of them wait for one group
        if not all(self._look(link, reader)[0] is Verdict.READY for reader in readers):
            return False
        return bool(readers) and not (meeting and any(meeting.lacking(reader) for reader in readers))

    def _met(self, link: Link, index: int) -> Iterator[int]:
        all_of_them = not isinstance(link, ChoosingLink) or link.has_failed(index)
        for reader in link.woken_by(index):
            if all_of_them or index in self._look(link, reader)[1]:
                yield reader

    def _look(self, link: Link, reader: int) -> tuple[Verdict, frozenset[int]]:
        """Return what an edge meant for a task, and what it picked: once, because it can rank many trials."""
        group = link.group_of_downstream(reader)
        place = (id(link), group)
        if place not in self._looked:
            picked = frozenset(link.members(group)) if isinstance(link, ChoosingLink) else frozenset()
            self._looked[place] = (link.verdict(group), picked)
        return self._looked[place]
