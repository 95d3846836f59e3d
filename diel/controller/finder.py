"""Finds tasks that must run now, among those that may have become ready."""

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from diel.base.errors import DielError, ModuleError
from diel.base.states import FailureClass, TaskState
from diel.controller.stages import Stages
from diel.site.shape import Unplaceable
from diel.store.artifacts.identity import FileChanged
from diel.store.journal.records import Cached, Result
from diel.store.journal.stage_history import ranges
from diel.store.project.cache import Cache, is_whole
from diel.store.project.requests import Cancel
from diel.store.project.runs import identity_of_run
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link, Verdict
from diel.tasks.points.adaptive import PointState
from diel.tasks.recipe import Recipe
from diel.tasks.results import MissingInput, artifact_home, carry, tell_origin
from diel.tasks.sources import InputNotReady
from diel.tasks.stage_run import StageRun
from diel.tasks.surrogate import tell_cached
from diel.worker.attempt.bundle import Question, Request
from diel.workflow.expressions import ExpressionError

HELD = 1000
"""The most tasks of a stage that are held because they ask for what has no room."""


class Finder:
    """Looks at queued tasks: skips, cancels and takes from the cache what need not run."""

    def __init__(self, stages: Stages, ledger: Ledger, cache: Cache | None, anew: frozenset[str]) -> None:
        self._stages = stages
        self._ledger = ledger
        self._cache = cache
        self._sharing = EqualTasks(stages, ledger) if cache is not None else None
        self._anew = anew
        self._held: dict[str, dict[int, Request]] = {}
        self._skips: dict[tuple[str, str, str], list[int]] = {}
        self.cancels: list[Cancel] = []

    def has_work(self, stage: StageRun) -> bool:
        """Return whether there is anything to look at, now or later."""
        return stage.in_line or bool(self._held.get(stage.name))

    def has_work_now(self, stage: StageRun) -> bool:
        """Return whether there is anything to look at without delay."""
        wake = stage.next_wake()
        due = wake is not None and wake <= time.monotonic()
        return stage.has_pending or due or bool(self._held.get(stage.name))

    def spare(self, stage: StageRun) -> int:
        """Return how many more tasks to look for than one bundle takes: others may ask for what has room."""
        return min(len(self._held.get(stage.name, ())), HELD) if stage.demand is not None else 0

    def hold(self, stage: StageRun, tasks: list[Request]) -> None:
        self._held[stage.name] = {task.index: task for task in tasks}

    def ready_tasks(self, stage: StageRun, count: int, until: float) -> list[Request]:
        """Up to `count` tasks that must run now, looking no longer than `until` (monotonic seconds)."""
        held = self._held.pop(stage.name, {})
        tasks = [task for task in held.values() if self._stays(stage, task.index)]
        if len(tasks) < count:
            for task in self._newly_ready(stage, until):
                tasks.append(task)
                if len(tasks) >= count:
                    break
        return tasks

    def _newly_ready(self, stage: StageRun, until: float) -> Iterator[Request]:
        for index in stage.candidates(time.monotonic()):
            task = self._examine(stage, index)
            if task is not None:
                stage.history.set(index, TaskState.READY)  # it can be queued twice: once for each edge
                yield task
            if time.monotonic() > until:
                break

    def gather(self, stage: StageRun, until: float) -> Iterator[int]:
        """Hold all tasks that must run now, and return the new ones; look no longer than `until`."""
        held = self._held.setdefault(stage.name, {})
        for task in self._newly_ready(stage, until):
            held[task.index] = task
            yield task.index

    def is_held(self, stage: str, index: int) -> bool:
        """Return whether a task was ready when it was last looked at, and waits for room."""
        return index in self._held.get(stage, ())

    def is_ready(self, stage: StageRun, index: int) -> bool:
        """Return whether a task that waits for room is still ready; if not, it no longer waits."""
        if self._stays(stage, index):
            return True
        self._held[stage.name].pop(index, None)
        return False

    def take(self, stage: StageRun, index: int) -> Request:
        """Take a task that waited for room, to be handed out."""
        return self._held[stage.name].pop(index)

    def _stays(self, stage: StageRun, index: int) -> bool:
        if self._is_closed(stage, index):
            return False
        serving = self._stages.serving
        if serving is not None and not (serving.may_start(stage, index) and serving.ask(stage, index)):
            stage.history.set(index, TaskState.WAITING)  # looked at again when what it asks is up
            return False
        return True

    @property
    def held(self) -> Iterator[tuple[str, int]]:
        return ((name, index) for name, tasks in self._held.items() for index in tasks)

    def _is_closed(self, stage: StageRun, index: int) -> bool:
        """Return whether a task will never begin, as when its trial was pruned; then it is left out."""
        serving = self._stages.serving
        if stage.stopped:
            self._note_skip(stage, index, stage.stopped, "")
        elif stage.standing(index) is PointState.CLOSED:
            self._omit(stage, index, "", "axis")
        elif serving is not None and serving.is_over(stage, index):
            if serving.was_up(stage, index):
                stage.history.set(index, TaskState.DONE)
                self._stages.note_end(stage, index)
            else:
                self._omit(stage, index, "", "service")
        else:
            return False
        return True

    def cancel(self, cancels: list[Cancel]) -> None:
        """Cancel waiting tasks, and those still to be looked at."""
        self.cancels = cancels
        for stage in self._stages.runs.values():
            if not any(cancel.touches(stage.name) for cancel in cancels):
                continue
            self.put_back(stage)
            waiting = (i for i in range(stage.size) if stage.history.state(i) == TaskState.WAITING)
            covered = [i for i in waiting if any(cancel.covers(stage.name, i) for cancel in cancels)]
            self._ledger.cancel(stage, ranges(covered))
            for index in covered:
                self._stages.note_end(stage, index)

    def put_back(self, stage: StageRun) -> None:
        """Make tasks that wait for room wait to be looked at again."""
        held = self._held.pop(stage.name, {})
        stage.look_at(held)
        for index in held:
            stage.history.set(index, TaskState.WAITING)

    def leave(self, stage: StageRun, rule: str) -> None:
        """Skip all tasks of a stage that are not handed out, and those that come back."""
        self.put_back(stage)
        stage.held, stage.stopped = False, rule
        waiting = [i for i in range(stage.size) if stage.history.state(i) == TaskState.WAITING]
        if waiting:
            self._ledger.skip(stage, ranges(waiting), rule, "")
        for index in waiting:
            self._stages.note_end(stage, index)

    def flush(self) -> None:
        """Record what was skipped: a million tasks with one cause are one line."""
        for (name, reason, cause), indices in self._skips.items():
            skipped = ranges(sorted(indices))
            self._ledger.skip(self._stages.runs[name], skipped, reason, cause)
        self._skips.clear()

    def _examine(self, stage: StageRun, index: int) -> Request | None:
        """Return the request of a task; None if it waits, is skipped, cached, or cannot be made."""
        if any(cancel.covers(stage.name, index) for cancel in self.cancels):
            self._ledger.cancel(stage, [[index, index]])
            self._stages.note_end(stage, index)
            return None
        if self._is_closed(stage, index) or stage.standing(index) is PointState.WAITING:
            return None
        recipe = self._stages.recipes[stage.name]
        if not self._has_inputs(stage, index, recipe):
            return None
        serving = self._stages.serving
        if serving is not None and not serving.may_start(stage, index):
            return None
        try:
            if not recipe.is_wanted(index):
                self._omit(stage, index, "")
                return None
            task = recipe.resolve(index)
            if recipe.meeting:
                self._ledger.join(stage, index, recipe.meeting.gaps(index))
        except InputNotReady as error:
            self._turn_away(stage, index, error.link, error.verdict)
            return None
        except (ExpressionError, MissingInput, ModuleError, Unplaceable) as error:
            self._fail(stage, index, error)
            return None
        task = self._without_condemned(recipe, task)
        if self._find_cached(stage, index, recipe, task):
            return None
        if self._sharing is not None and self._sharing.awaits(stage, task):
            return None
        try:
            stage.ask_of(index)
        except Unplaceable as error:
            self._fail(stage, index, error)
            return None
        return task if serving is None or serving.ask(stage, index) else None

    def _has_inputs(self, stage: StageRun, index: int, recipe: Recipe) -> bool:
        """Return whether a task can read what it must; if not, it waits or is skipped."""
        for link in self._stages.into[stage.name]:
            if link.edge.branch:
                continue  # it counts where it is read
            verdict = link.verdict(link.group_of_downstream(index))
            if verdict is not Verdict.READY:
                self._turn_away(stage, index, link, verdict)
                return False
        lacking = recipe.meeting.lacking(index) if recipe.meeting else None
        if lacking is not None:
            self._turn_away(stage, index, lacking.link, Verdict.FAILED)
        return lacking is None

    def _turn_away(self, stage: StageRun, index: int, link: Link, verdict: Verdict) -> None:
        """Let a task wait for what an edge gives it, or skip it."""
        if verdict is Verdict.OMITTED:
            self._omit(stage, index, link.up.name)
        elif verdict is Verdict.FAILED and link.missing:
            self._fail(stage, index, MissingInput(link.missing))
        elif verdict is Verdict.FAILED:
            self._note_skip(stage, index, "upstream", link.up.name)

    def _fail(self, stage: StageRun, index: int, error: Exception) -> None:
        kind = FailureClass.CHANGED if isinstance(error, FileChanged) else FailureClass.UPSTREAM
        kind = FailureClass.LAUNCH if isinstance(error, Unplaceable) else kind
        self._ledger.fail(stage, index, {"class": kind, "message": str(error)})
        self._stages.note_end(stage, index)

    def _without_condemned(self, recipe: Recipe, task: Request) -> Request:
        """Return the request of a task, which asks nobody where an audit condemned what would be answered."""
        if self._cache is None or not isinstance(task.question, Question) or task.question.audited:
            return task
        run = self._cache.condemned(recipe.family, task.question.key)
        return task._replace(question=f"an audit of {run} spoke against it") if run else task

    def _find_cached(self, stage: StageRun, index: int, recipe: Recipe, task: Request) -> bool:
        if stage.spec.service is not None or index in stage.history.gone:
            return False  # of the latter a result from the cache would count as the one that lost its files
        if recipe.streams is not None:  # what others put or get meanwhile is not part of its key
            return False
        key, parts, question = task.key, task.parts, task.question
        cache = None if stage.name in self._anew else self._cache
        if cache and self._is_pruned_again(cache, stage, index, recipe.family, key):
            return self._is_closed(stage, index)  # what it had reported before counts more than its result
        result = self._find_same(stage, key) or (None if cache is None else cache.find(recipe.family, key))
        if result is None and isinstance(question, Question) and not question.audited:
            key, parts = question.key, question.parts  # a simulation counts more than an answer
            result = self._find_same(stage, key)
            result = result or (None if cache is None else cache.find(recipe.family, key))
        if result is None:
            return False
        record: Cached = {
            "event": "cached",
            "stage": stage.name,
            "index": index,
            "seconds": result.get("seconds", 0.0),
            "key": key,
            "parts": parts,
        }
        carry(result, record)
        if "same" in result:
            record["same"] = result["same"]
        if stage.adaptive:
            tell_origin(record, result)
        tell_cached(record, result, stage.spec, question)
        offset = self._ledger.append(record)
        self._ledger.commit(stage, index, self._ledger.segment.name, offset, record)
        self._stages.note_end(stage, index)
        return True

    def _is_pruned_again(self, cache: Cache, stage: StageRun, index: int, family: str, key: str) -> bool:
        """Tell searches what a task reported before it was pruned in an earlier run."""
        pruning = [axis for axis in stage.adaptive if axis.axis.prunes]
        for axis in pruning:
            self._stages.deciders[axis.label].recall(stage, index, partial(cache.reported, family, key))
        return bool(pruning) and stage.standing(index) is PointState.CLOSED

    def _find_same(self, stage: StageRun, key: str) -> Result | None:
        return None if self._sharing is None else self._sharing.find(stage, key)

    def _omit(self, stage: StageRun, index: int, cause: str, reason: str = "when") -> None:
        stage.omitted.add(index)
        self._note_skip(stage, index, reason, cause)

    def _note_skip(self, stage: StageRun, index: int, reason: str, cause: str) -> None:
        self._skips.setdefault((stage.name, reason, cause), []).append(index)
        stage.history.set(index, TaskState.SKIPPED)
        self._stages.note_end(stage, index)


class EqualTasks:
    """Which task of a run has made, or makes, the result that belongs to a key: equal tasks share it. Those
    are tasks of trials at the same point, where nothing reads their number. The first of them runs, the
    others wait for its end; without a result the next one runs. All of it follows from the journal."""

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
        result = self._ledger.results.record(stage.name, index).copy()
        root = self._ledger.paths.root
        if "run" not in result:
            result["run"], result["run_id"] = root.name, identity_of_run(root)
        result["same"] = index
        return result if is_whole(result, artifact_home(result, root)) else None

    def _keep(self, stage: StageRun, index: int) -> None:
        self._made[stage.name].setdefault(self._ledger.results.record(stage.name, index)["key"], index)

    def awaits(self, stage: StageRun, task: Request) -> bool:
        """Return whether an equal task is under way; if so, this one is looked at again when that ends."""
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
        """Return what runs since an earlier controller handed it out."""
        by_key: dict[str, int] = {}
        for index, attempt in stage.history.under_way.items():
            if attempt.state in (TaskState.QUEUED, TaskState.RUNNING):
                with suppress(DielError, ExpressionError):  # what it read is gone
                    by_key[self._stages.recipes[stage.name].resolve(index).key] = index
        return by_key

    def _note_end(self, stage: StageRun, index: int) -> None:
        if stage.name in self._made and stage.history.is_good(index):
            self._keep(stage, index)
        if waiting := self._waiting.pop((stage.name, index), None):
            stage.look_at(waiting)
