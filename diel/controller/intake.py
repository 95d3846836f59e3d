"""Handles what became of tasks: results, failures, lost workers."""

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from diel.backends.blocks.dispatcher import Dispatcher, SentBundle, reset
from diel.base.errors import DielError, NotBegun, WorkerLost
from diel.base.states import FailureClass, TaskState
from diel.base.values import format_duration, format_size
from diel.controller.stages import Stages
from diel.site.shape import Unplaceable
from diel.store.journal.records import Done, Fail, Record, Release, Start
from diel.store.journal.stage_history import Attempt
from diel.store.project.requests import put_up
from diel.tasks.ledger import Ledger
from diel.tasks.points.adaptive import PointState
from diel.tasks.results import outputs_digests
from diel.tasks.stage_run import StageRun
from diel.tasks.stream import is_cut_by_user
from diel.worker.attempt.bundle import BundleReport
from diel.worker.attempt.ipc import SPENT
from diel.worker.attempt.reaper import RecentOomKills, kill_marked
from diel.workflow.models import Resources, Rule

MAX_BACKOFF = 300.0
SHARED = "retries"
"""The name under which failures that `retries` covers are counted."""
HASTE = 1.0
"""An attempt that is interrupted before so many seconds did no work."""
MAX_HASTY = 20
"""After so many such attempts in a row a task counts as failed."""
TRIES = 5
"""After so many workers in a row that could not begin, the run ends."""
DIED = WorkerLost.__name__
"""Parsl's exception has the same name: a worker ended under a bundle, perhaps without its node."""


@dataclass
class Intake:
    """Decides whether a task is done, tried again, or failed for good."""

    _stages: Stages
    _ledger: Ledger
    _dispatcher: Dispatcher
    _fits: "Fits"
    """Bounds what a retry can ask for."""
    advice: str = "`diel doctor` checks this machine"
    """What to do where workers cannot begin."""
    _tries: int = 0
    """How many workers in a row ended before they could run anything; those of one moment count once."""
    _last_try: float = 0.0
    _kills: RecentOomKills = field(default_factory=RecentOomKills)
    excluded: set[str] = field(default_factory=set)
    """Nodes that further blocks should avoid: tasks were lost on them."""

    def take(self, number: int, future: Future[bytes]) -> BundleReport | None:
        """Handle a bundle that ended (return its report) or was lost. Raise DielError where none begins."""
        sent = self._dispatcher.pop(number)
        if sent is None:
            return None
        error = future.exception()
        if error is not None:
            self._take_lost(number, sent, error)
            return None
        self._tries = 0
        report = BundleReport(*json.loads(future.result().removesuffix(SPENT)))
        for offset, record in report.records:
            self._take_record(report.segment, offset, record)
        self._ledger.read_until(report.segment, report.end)
        # All that the bundle still has in flight was not begun: the report may come before the line
        # that releases it was read.
        self._dispatcher.take_back(sent.stage, number, sent.indices)
        return report

    def read_news(self) -> bool:
        """Handle what workers wrote but have not reported; return whether there was anything."""
        self._kills.look()
        news = self._ledger.read_news()
        for segment, offset, record, ended in news:
            self._take_record(segment, offset, record, ended=ended)
        return bool(news)

    def _take_late(self, segment: str, offset: int, record: Start | Done | Fail) -> None:
        """Handle the records of a worker that was given up for lost: its task waits to be handed out."""
        index, stage = record["index"], self._stages.runs.get(record["stage"])
        if (
            stage is None
            or not stage.known
            or stage.history.is_fenced(index, record["attempt"])
            or (stage.name, index) in self._dispatcher.in_flight
        ):
            return
        if record["event"] == "done":
            self._commit(stage, segment, offset, record)
        else:
            reset(stage, index)

    def _take_record(self, segment: str, offset: int, record: Record, *, ended: bool = True) -> None:
        """Handle a worker's record; `ended`: whether its task had ended before."""
        match record["event"]:
            case "done" if not self._ledger.counts(record):
                pass
            case "done" | "fail" | "start":
                if not self._take_end(segment, offset, record) and not ended:
                    self._take_late(segment, offset, record)
            case "release":
                self._take_release(segment, record)
            case "staging":
                self._ledger.history.apply(record, segment)
            case _:
                pass  # folded in already, if it says anything about tasks

    def _take_end(self, segment: str, offset: int, record: Start | Done | Fail) -> bool:
        """Handle the progress of an attempt; return whether its task is in flight."""
        task = self._dispatcher.in_flight.get((record["stage"], record["index"]))
        if task is None:
            return False
        stage = self._stages.runs[record["stage"]]
        if record["event"] == "done":
            del self._dispatcher.in_flight[(stage.name, record["index"])]
            self._commit(stage, segment, offset, record)
        elif record["event"] == "fail" and task.is_told_by(record):
            del self._dispatcher.in_flight[(stage.name, record["index"])]
            self._ledger.history.apply(record, segment)
            self._retry_or_fail(stage, record["index"], record, self._node(segment))
        return True

    def _commit(self, stage: StageRun, segment: str, offset: int, record: Done) -> None:
        before = stage.history.made.get(record["index"]) if stage.history.made else None
        if before is not None and before != outputs_digests(record):
            self._stages.are_others = True
        stage.measure(record["seconds"])
        self._ledger.commit(stage, record["index"], segment, offset, record)
        if stage.standing(record["index"]) is PointState.CLOSED:  # it ended before it could be stopped
            self._stages.take_back(stage, record["index"])
        self._stages.note_end(stage, record["index"])

    def _take_release(self, segment: str, record: Release) -> None:
        stage = self._stages.runs[record["stage"]]
        self._ledger.history.apply(record, segment)
        if "taken" in record:  # by a worker that was given up before it began
            fenced = [[index, record["taken"]] for index in record["tasks"]]
            self._ledger.append({"event": "fenced", "stage": stage.name, "tasks": fenced})
        self._dispatcher.take_back(stage, record["bundle"], record["tasks"])

    def _take_lost(self, number: int, sent: SentBundle, error: BaseException) -> None:
        """Take the loss of a worker: its segment shows which tasks were done and which one it was running."""
        self.read_news()
        stage = sent.stage
        if self._give_up(stage, [i for i in sent.indices if self._dispatcher.is_out(stage, i, number)]):
            self.read_news()
        begun = 0
        for index in sent.indices:
            if not self._dispatcher.is_out(stage, index, number):
                begun += 1
                continue
            attempt = stage.history.under_way.get(index)
            if attempt is not None and attempt.state == TaskState.RUNNING:
                begun += 1
                folder = self._ledger.paths.task_dir(stage.name, index, attempt.number)
                kill_marked("DIEL_TASK_DIR", str(folder))  # a command outlives its worker
                kind, message = self._blame(stage, index, attempt, sent, error)
                self.lose(stage, index, kind, message, self._node(attempt.worker))
            else:
                self._dispatcher.take_back(stage, number, [index])
        if begun:
            self._tries = 0
        elif sent.since >= self._last_try and (isinstance(error, NotBegun) or type(error).__name__ == DIED):
            self._tries, self._last_try = self._tries + 1, time.monotonic()
            if self._tries >= TRIES:
                raise DielError(
                    f"no worker can begin, {TRIES} tries in a row: {error};\n"
                    f"{self.advice}; `diel resume` then continues"
                )

    def _give_up(self, stage: StageRun, indices: Iterable[int]) -> bool:
        """Fence the workers in blocks that run these tasks; return whether there are any."""
        by_block: dict[str, set[str]] = {}
        for index in indices:
            attempt = stage.history.under_way.get(index)
            worker = None if attempt is None else self._ledger.history.workers.get(attempt.worker)
            if attempt is not None and worker is not None and attempt.state == TaskState.RUNNING:
                by_block.setdefault(worker["block"], set()).add(attempt.worker)
        for block, workers in by_block.items():
            with contextlib.suppress(OSError):  # the record decides
                put_up(self._ledger.paths, block, workers)
        return bool(by_block)

    def give_up_block(self, block: str) -> None:
        """Fence a block that ended, and handle what its workers wrote before."""
        with contextlib.suppress(OSError):
            put_up(self._ledger.paths, block)
        self.read_news()

    def _blame(
        self, stage: StageRun, index: int, attempt: Attempt, sent: SentBundle, error: BaseException
    ) -> tuple[FailureClass, str]:
        """Return why a worker was lost with a task, as far as this host knows."""
        limit = stage.ran_as(index, attempt.number).timeout
        age = min(time.time() - attempt.time, time.monotonic() - sent.since)  # the clock can step
        if limit is not None and age >= limit:
            message = f"ran longer than its timeout of {limit:g} s, and let nothing else run"
            return FailureClass.TIMEOUT, message
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        lost = f"its worker was lost: {reason[:200]}"
        if isinstance(error, WorkerLost) and error.killed and self._kills.grew():
            self._kills.forget()
            return FailureClass.OOM, f"out of memory: the system killed for lack of it ({lost})"
        return FailureClass.NODE, lost

    def lose(
        self, stage: StageRun, index: int, kind: FailureClass, message: str, node: str | None = None
    ) -> None:
        """Handle a task in flight that was lost with its worker, on a `node` of the scheduler."""
        task = self._dispatcher.in_flight.pop((stage.name, index), None)
        if task is None:
            return
        self._ledger.append({"event": "fenced", "stage": stage.name, "tasks": [[index, task.attempt]]})
        record: Fail = {
            "event": "fail",
            "stage": stage.name,
            "index": index,
            "attempt": task.attempt,
            "time": time.time(),
            "bundle": task.bundle,
            "class": kind,
            "message": message,
        }
        self._ledger.append(record)
        self._retry_or_fail(stage, index, record, node)

    def _node(self, segment: str) -> str | None:
        worker = self._ledger.history.workers.get(segment)
        return None if worker is None else worker["node"]

    def _retry_or_fail(self, stage: StageRun, index: int, record: Fail, node: str | None) -> None:
        kind = FailureClass(record["class"])
        cut = kind is FailureClass.UPSTREAM and is_cut_by_user(self._stages.into[stage.name], index)
        if cut or stage.standing(index) is PointState.CLOSED:
            kind = FailureClass.CANCELLED
        match kind:
            case FailureClass.CANCELLED:
                self._leave(stage, index)
            case FailureClass.INTERRUPTED:
                self._continue(stage, index, record)
            case _:
                try:
                    self._retry(stage, index, record, kind, node)
                except Unplaceable as error:
                    self._fail(stage, index, record, f"{record['message']}; it cannot run again: {error}")

    def _leave(self, stage: StageRun, index: int) -> None:
        """End a task that was stopped: by its search, when its trial was pruned, or by a user."""
        if stage.standing(index) is PointState.CLOSED:
            stage.omitted.add(index)
            self._ledger.skip(stage, [[index, index]], "axis", "")
        else:
            self._ledger.cancel(stage, [[index, index]])
        self._stages.note_end(stage, index)

    def _retry(self, stage: StageRun, index: int, record: Fail, kind: FailureClass, node: str | None) -> None:
        """Run a task again, with more memory or walltime if its policy says so, or fail it. Raise Misfit."""
        number = record["attempt"]
        ask = stage.ask_of(index, number)
        rule = (stage.spec if ask is None else ask.spec).rule(kind)
        if rule.exclude and node:
            self.excluded.add(node)
        count = stage.count_failure(index, SHARED if rule.shared else kind)
        if count > rule.retries:
            self._fail(stage, index, record)
            return
        before = stage.resources_of(index, number)
        fits = self._fits if ask is None else partial(self._fits, pool=ask.shape.pool)
        after = escalated(stage.name, before, rule, fits)
        hopeless = exhausted(before, after, rule)
        if hopeless and not (kind is FailureClass.WALLTIME and stage.spec.checkpoint):
            self._fail(stage, index, record, f"{record['message']}; {hopeless}")
            return
        if after != before:
            stage.granted[index] = after.changes(stage.spec_of(index, number).resources)
        stage.ask_of(index)  # the next attempt can ask for something else
        reset(stage, index)
        stage.later(index, time.monotonic() + min(rule.backoff * 2.0 ** min(count - 1, 32), MAX_BACKOFF))

    def _continue(self, stage: StageRun, index: int, record: Fail) -> None:
        """Continue an interrupted task at once, as another attempt, unless it makes no progress."""
        hasty = stage.hasty.get(index, 0) + 1 if record.get("seconds", HASTE) < HASTE else 0
        stage.hasty[index] = hasty
        if hasty >= MAX_HASTY:
            message = (
                f"interrupted {hasty} times in a row within {HASTE:g} s of its start: it gets nowhere; "
                "give it more `resources.walltime`, or let it work before it stops"
            )
            record["class"] = FailureClass.APP
            self._fail(stage, index, record, message)
            return
        reset(stage, index)
        stage.look_at([index])

    def _fail(self, stage: StageRun, index: int, record: Fail, message: str = "") -> None:
        """Record that a task failed for good; `message` says more than its last attempt."""
        record["message"] = message or record["message"]
        self._ledger.fail(stage, index, record, record["attempt"])
        self._stages.note_end(stage, index)


Fits = Callable[..., bool]
"""Whether a task of a stage with these resources fits its pool, or another one."""

_STEPS = {"memory": 2.0**20, "walltime": 1.0}
"""How close a request comes to a pool's limit: a MiB, a second."""
_LEAST = 1.01
"""A growth below this factor does not count."""


def escalated(stage: str, resources: Resources, rule: Rule, fits: Fits) -> Resources:
    """Resources times the rule's factors, but no more than the largest pool can hold."""
    for key, factor in (("memory", rule.memory), ("walltime", rule.walltime)):
        now = getattr(resources, key)
        if now is not None and factor > 1:
            resources = _grown(resources, key, now, factor * now, lambda larger: fits(stage, larger))
    return resources


def exhausted(before: Resources, after: Resources, rule: Rule) -> str:
    """Return what cannot grow although the rule says so, for a message; empty if all did."""
    limits = []
    if rule.memory > 1 and before.memory is not None and before.memory == after.memory:
        limits.append(f"{format_size(before.memory)} of memory")
    if rule.walltime > 1 and before.walltime is not None and before.walltime == after.walltime:
        limits.append(f"{format_duration(before.walltime)} of walltime")
    return f"no pool gives a task more than {' or '.join(limits)}" if limits else ""


def _grown(
    resources: Resources, key: str, now: float, most: float, fits: Callable[[Resources], bool]
) -> Resources:
    best = _with(resources, key, most)
    if not fits(best):
        low, high = now, most
        while high - low > _STEPS[key]:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(_with(resources, key, middle)) else (low, middle)
        best = _with(resources, key, low)
    return best if getattr(best, key) >= _LEAST * now else resources


def _with(resources: Resources, key: str, value: float) -> Resources:
    return resources.model_copy(update={key: int(value) if key == "memory" else value})
