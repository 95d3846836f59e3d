"""The controller of one run: from the first ready task to the last committed result.

One thread decides everything. It looks at tasks that may have become ready, resolves them, takes
results from the cache or hands bundles to Parsl, and folds what comes back into the run's history.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from diel.cache import Cache, write_keys
from diel.controller.axes import Axes, maker_of
from diel.controller.link import Link, Verdict
from diel.controller.recipe import MissingInput, Recipe, Resolved
from diel.controller.results import Results
from diel.controller.stage_run import StageRun
from diel.domain import make_domain
from diel.errors import DielError, ModuleError, UsageError
from diel.executors.pipes import Pipes
from diel.expressions import ExpressionError
from diel.journal.history import History, ranges
from diel.journal.segment import Record, SegmentWriter
from diel.journal.snapshot import Reader
from diel.lease import HEARTBEAT, Lease, beat
from diel.paths import RunPaths
from diel.plan import Plan
from diel.requests import Cancel, changed, read_cancels
from diel.runs import RunFile
from diel.states import FailureClass, RunState, TaskState
from diel.worker.bundle import Bundle, Report, Request
from diel.worker.reaper import kill_marked

if TYPE_CHECKING:
    from diel.executors.parsl import Engine

BUNDLE_SECONDS = 0.25
"""Run time that a bundle of short tasks aims at."""
MAX_BUNDLE = 2000
FIRST_BUNDLE = 8
"""Tasks in a stage's first bundles, before their run time is known."""
OVERHEAD = 2e-4
"""Seconds that a task costs a worker besides its own run time."""
LOOK_SECONDS = 0.1
"""Longest time spent looking for ready tasks before finished ones are taken in."""
POLL = 0.5
"""Seconds between two looks at what users ask and at workers that are slow to report."""
SNAPSHOT_EVERY = 5.0
MAX_LOST = 5
"""Workers that a task may lose before it counts as failed."""
MAX_BACKOFF = 300.0
STOP_SECONDS = 10.0
"""How long cancelled tasks may take to end."""

Watch = Callable[[History], None]


@dataclass(slots=True)
class InFlight:
    """A task that was handed out."""

    bundle: int
    attempt: int


@dataclass
class Sent:
    """A bundle that was handed to Parsl."""

    stage: StageRun
    requests: tuple[Request, ...]
    cores: int
    since: float


class Controller:
    """Drives one run in this process."""

    def __init__(
        self, plan: Plan, run_file: RunFile, paths: RunPaths, lease: Lease, segment: SegmentWriter
    ) -> None:
        self.plan = plan
        self.run_file = run_file
        self.paths = paths
        self.lease = lease
        self.segment = segment
        self.reader = Reader(paths)
        self.history = self.reader.history
        self.results = Results(paths)
        self.axes = Axes(plan.workflow, run_file.folder, paths)
        self.stages: dict[str, StageRun] = {}
        self.recipes: dict[str, Recipe] = {}
        self.into: dict[str, list[Link]] = {}
        self.out_of: dict[str, list[Link]] = {}
        self.in_flight: dict[tuple[str, int], InFlight] = {}
        self.sent: dict[int, Sent] = {}
        self.finished: SimpleQueue[tuple[int, Future[bytes]]] = SimpleQueue()
        self.held: dict[str, list[tuple[int, Resolved]]] = {}
        self.cache = Cache(paths.root.parent, paths) if run_file.use_cache else None
        self.anew = plan.graph.after(run_file.begin_at) if run_file.begin_at else frozenset()
        self.load = 0
        self._bundles = 0
        self._engine: Engine | None = None
        self._cancels: list[Cancel] = []
        self._cancelling_since: float | None = None
        self._requests_seen = 0.0
        self._skips: dict[tuple[str, str, str], list[int]] = {}
        self._last_beat = self._last_poll = self._last_snapshot = time.monotonic()
        self._began = time.time()

    # --- the loop -----------------------------------------------------------------------------

    def drive(self, watch: Watch) -> RunState:
        """Runs to the end; returns the run's state. KeyboardInterrupt leaves the run interrupted."""
        os.environ["DIEL_RUN_DIR"] = str(self.paths.root)  # marks every process of the run
        state = RunState.INTERRUPTED
        try:
            self._open()
            while not self._is_over():
                self._fill()
                self._take_finished(watch)
                self._poll()
            state = self._close_open_tasks()
        finally:
            self._stop_engine()
            self._finish(state)
            watch(self.history)
        return state

    def _is_over(self) -> bool:
        if self._cancelling_since is not None:
            late = time.monotonic() - self._cancelling_since > STOP_SECONDS
            return late or not self.in_flight
        if self.in_flight or not all(stage.complete for stage in self.stages.values()):
            if not self.in_flight and not any(self._has_work(s) for s in self.stages.values()):
                stuck = ", ".join(s.name for s in self.stages.values() if not s.complete)
                raise DielError(f"nothing runs and nothing is ready, but not done: {stuck}")
            return False
        return True

    def _has_work(self, stage: StageRun) -> bool:
        return stage.in_line or bool(self.held.get(stage.name))

    def _close_open_tasks(self) -> RunState:
        if self._cancelling_since is not None:
            for stage in self.stages.values():
                open_ = [i for i in range(stage.size) if not stage.history.state(i).ended]
                self._verdict("cancelled", stage, ranges(open_), {})
            return RunState.CANCELLED
        counts = [stage.history.counts() for stage in self.stages.values()]
        if any(count["failed"] for count in counts) or any(s.void for s in self.stages.values()):
            return RunState.FAILED
        return RunState.CANCELLED if any(c["cancelled"] for c in counts) else RunState.SUCCEEDED

    def _stop_engine(self) -> None:
        if self._engine is not None:
            self._engine.stop()
        kill_marked("DIEL_RUN_DIR", str(self.paths.root))

    def _finish(self, state: RunState) -> None:
        """Leaves the run so that others can read it fast."""
        self._append({"event": "end", "state": state, "time": time.time()})
        self.reader.notes = {}
        self.reader.catch_up()
        self.reader.save()
        self.segment.close()
        write_keys(self.paths)

    # --- beginning ----------------------------------------------------------------------------

    def _open(self) -> None:
        """Reads what earlier controllers left, and opens every stage whose axes are known."""
        self.reader.catch_up(self._remember)
        workflow = self.plan.workflow
        for name in self.plan.graph.order:
            spec = workflow.stages[name]
            history = self.history.stage(name)
            self.stages[name] = StageRun(name, spec, history, self.plan.graph.depth[name])
        for edge in self.plan.graph.edges:
            link = Link(edge, self.stages[edge.upstream], self.stages[edge.downstream])
            self.into.setdefault(edge.downstream, []).append(link)
            self.out_of.setdefault(edge.upstream, []).append(link)
        for name, stage in self.stages.items():
            self.recipes[name] = Recipe(
                stage,
                self.plan.modules.get(name),
                self.into.get(name, []),
                self.results,
                self.run_file.hyperparameters,
                self.run_file.folder,
                self.paths,
                self.plan.stages[name].launcher,
            )
        self.axes.open_static()
        self._open_stages()

    def _remember(self, segment: str, offset: int, record: Record) -> None:
        if record["event"] in ("done", "cached"):
            self.results.put(record["stage"], record["index"], segment, offset, record)

    def _open_stages(self) -> None:
        """Opens the stages whose axes have become known; one may make another's axis known."""
        opened = True
        while opened:
            opened = False
            for stage in self.stages.values():
                if stage.domain is None and not stage.void and self._know_axes(stage):
                    self._open_stage(stage)
                    opened = True

    def _know_axes(self, stage: StageRun) -> bool:
        """Whether all axes of a stage are known, deriving those that can be; may make it void."""
        for label in stage.spec.over:
            if label in self.axes.points:
                continue
            axis = self.plan.workflow.axes[label]
            maker = self.stages[maker_of(axis) or ""]
            if not maker.complete:
                return False
            lost = maker.void or any(not maker.history.state(i).good for i in range(maker.size))
            if maker.void or (lost and not set(maker.spec.over) <= set(stage.spec.over)):
                self._make_void(stage, f"'{maker.name}' did not make the axis '{label}'")
                return False
            try:
                self.axes.open_derived(label, maker, self.results)
            except UsageError as error:
                self._make_void(stage, str(error))
                return False
        return True

    def _make_void(self, stage: StageRun, reason: str) -> None:
        stage.void = True
        self._append(
            {
                "event": "stage",
                "stage": stage.name,
                "kind": self.plan.stages[stage.name].kind,
                "total": 0,
                "void": reason,
                "time": time.time(),
            }
        )
        for link in self.out_of.get(stage.name, []):
            if link.down.domain is not None:
                link.down.look_at(range(link.down.size))

    def _open_stage(self, stage: StageRun) -> None:
        counts = {label: len(self.axes.points[label]) for label in stage.spec.over}
        stage.points = {label: self.axes.points[label] for label in stage.spec.over}
        stage.domain = make_domain(stage.spec.over, counts, self.axes.origins)
        recipe = self.recipes[stage.name]
        self._append(
            {
                "event": "stage",
                "stage": stage.name,
                "kind": self.plan.stages[stage.name].kind,
                "total": stage.size,
                "family": recipe.family,
                "parts": recipe.family_parts,
                "time": time.time(),
            }
        )
        states = stage.history.states
        states.extend(bytes(stage.size - len(states)))
        for link in self.out_of.get(stage.name, []):
            link.resolve()
        for index in range(stage.size) if any(states) else ():
            if stage.history.state(index).ended:
                stage.ended += 1
                for link in self.out_of.get(stage.name, []):
                    link.note_end(index)
        links = self.into.get(stage.name, [])
        if all(link.up.ended or link.up.void or link.up.complete for link in links):
            stage.look_at(range(stage.size))

    # --- looking for ready tasks ---------------------------------------------------------------

    def _fill(self) -> None:
        """Hands out bundles while there is room; later stages go first, so that samples flow through."""
        if self._cancelling_since is not None:
            return
        end = time.monotonic() + LOOK_SECONDS
        waiting = sorted(self.stages.values(), key=lambda stage: -stage.depth)
        while time.monotonic() < end:
            for stage in waiting:
                if not self._has_work(stage):
                    continue
                size = self._bundle_size(stage)
                tasks = self._ready_tasks(stage, size, end)
                if not tasks:
                    continue
                if not self._has_room(stage):
                    self.held[stage.name] = tasks
                    self._flush_skips()
                    return
                self._send(stage, tasks)
                break
            else:
                break
        self._flush_skips()

    def _has_room(self, stage: StageRun) -> bool:
        cores = self.plan.stages[stage.name].cores
        capacity = self.plan.capacity
        small = cores == 1 and all(sent.cores == 1 for sent in self.sent.values())
        return self.load + cores <= (2 * capacity if small else capacity)

    def _bundle_size(self, stage: StageRun) -> int:
        if self.plan.stages[stage.name].cores > 1:
            return 1
        remaining = max(stage.size - stage.ended, 1)
        fair = max(1, remaining // (2 * self.plan.capacity))
        if stage.mean_seconds is None:
            return min(FIRST_BUNDLE, fair)
        return max(1, min(int(BUNDLE_SECONDS / (stage.mean_seconds + OVERHEAD)), fair, MAX_BUNDLE))

    def _ready_tasks(self, stage: StageRun, wanted: int, end: float) -> list[tuple[int, Resolved]]:
        """Up to `wanted` tasks that must run now; others are skipped or taken from the cache."""
        tasks = self.held.pop(stage.name, [])
        if len(tasks) >= wanted:
            return tasks
        for index in stage.candidates(time.monotonic()):
            resolved = self._examine(stage, index)
            if resolved is not None:
                tasks.append((index, resolved))
            if len(tasks) >= wanted or time.monotonic() > end:
                break
        return tasks

    def _examine(self, stage: StageRun, index: int) -> Resolved | None:
        """What a task needs to run; None where it waits, is skipped, cached, or cannot be made."""
        if any(cancel.covers(stage.name, index) for cancel in self._cancels):
            self._verdict("cancelled", stage, [[index, index]], {})
            self._note_end(stage, index)
            return None
        for link in self.into.get(stage.name, []):
            verdict = link.verdict(link.group_of_downstream(index))
            if verdict is Verdict.WAITING:
                return None
            if verdict is not Verdict.READY:
                self._skip(stage, index, verdict, link)
                return None
        recipe = self.recipes[stage.name]
        try:
            if not recipe.is_wanted(index):
                stage.omitted.add(index)
                self._note_skip(stage, index, "when", "")
                return None
            resolved = recipe.resolve(index)
        except (ExpressionError, MissingInput, ModuleError) as error:
            self._fail(stage, index, {"class": FailureClass.UPSTREAM, "message": str(error)})
            return None
        return None if self._find_cached(stage, index, recipe, resolved) else resolved

    def _find_cached(self, stage: StageRun, index: int, recipe: Recipe, resolved: Resolved) -> bool:
        if self.cache is None or stage.name in self.anew:
            return False
        found = self.cache.find(recipe.family, resolved.key)
        if found is None:
            return False
        record: Record = {
            "event": "cached",
            "stage": stage.name,
            "index": index,
            "run": found["run"],
            "time": time.time(),
            "seconds": found.get("seconds", 0.0),
            "key": resolved.key,
            "parts": resolved.parts,
        }
        record.update({k: found[k] for k in ("values", "artifacts") if k in found})
        self._commit(stage, index, self.segment.name, self._append(record), record)
        return True

    def _skip(self, stage: StageRun, index: int, verdict: Verdict, link: Link) -> None:
        if verdict is Verdict.OMITTED:
            stage.omitted.add(index)
        self._note_skip(stage, index, "when" if verdict is Verdict.OMITTED else "upstream", link.up.name)

    def _note_skip(self, stage: StageRun, index: int, reason: str, cause: str) -> None:
        self._skips.setdefault((stage.name, reason, cause), []).append(index)
        stage.history.set(index, TaskState.SKIPPED)
        self._note_end(stage, index)

    def _flush_skips(self) -> None:
        for (name, reason, cause), indices in self._skips.items():
            more = {"reason": reason, "cause": cause}
            self._verdict("skipped", self.stages[name], ranges(sorted(indices)), more)
        self._skips.clear()

    # --- handing out --------------------------------------------------------------------------

    def _send(self, stage: StageRun, tasks: list[tuple[int, Resolved]]) -> None:
        self._bundles += 1
        number = self._bundles
        before = stage.history.attempts
        requests = tuple(resolved.request(i, before.get(i, 0) + 1) for i, resolved in tasks)
        record: Record = {
            "event": "queued",
            "stage": stage.name,
            "bundle": number,
            "tasks": [request.index for request in requests],
            "time": time.time(),
        }
        if any(request.attempt > 1 for request in requests):
            record["attempts"] = [request.attempt for request in requests]
        self._append(record)
        for request in requests:
            self.in_flight[(stage.name, request.index)] = InFlight(number, request.attempt)
        cores = self.plan.stages[stage.name].cores
        self.sent[number] = Sent(stage, requests, cores, time.monotonic())
        self.load += cores
        job = self.recipes[stage.name].job
        bundle = Bundle(
            number, str(self.paths.root), self.lease.epoch, job, requests, 2 * BUNDLE_SECONDS
        )
        future = self._start_engine().submit(bundle)
        future.add_done_callback(lambda done: self.finished.put((number, done)))

    def _start_engine(self) -> Engine:
        if self._engine is None:
            workers = self.plan.capacity
            pipes = Pipes(workers) if self.plan.executor == "threads" else None
            from diel.executors.parsl import Engine  # slow: not where all is cached, and after the pipes

            self._engine = Engine(workers, self.paths.logs, pipes)
        return self._engine

    # --- taking in ----------------------------------------------------------------------------

    def _take_finished(self, watch: Watch) -> None:
        """Takes in what finished; waits a moment where there is nothing else to do."""
        busy = self._cancelling_since is None and any(
            self._has_work(stage) and self._has_room(stage) and not self._only_later(stage)
            for stage in self.stages.values()
        )
        try:
            item = self.finished.get(timeout=0.0005 if busy else self._patience())
            while True:
                self._take(*item)
                item = self.finished.get_nowait()
        except Empty:
            pass
        watch(self.history)

    def _only_later(self, stage: StageRun) -> bool:
        wake = stage.next_wake()
        return not self.held.get(stage.name) and not stage.has_pending and wake is not None

    def _patience(self) -> float:
        wakes = [wake for stage in self.stages.values() if (wake := stage.next_wake()) is not None]
        return max(0.0, min([POLL / 5, *(wake - time.monotonic() for wake in wakes)]))

    def _take(self, number: int, future: Future[bytes]) -> None:
        sent = self.sent.pop(number, None)
        if sent is None:
            return
        self.load -= sent.cores
        error = future.exception()
        if error is not None:
            self._take_lost(number, sent, error)
            return
        report: Report = pickle.loads(future.result())  # noqa: S301 - from our own worker
        for offset, record in report.records:
            self._take_record(report.segment, offset, record)
        self.reader.offsets[report.segment] = max(self.reader.offsets.get(report.segment, 0), report.end)
        self._take_back(sent.stage, number, report.unstarted)

    def _take_record(self, segment: str, offset: int, record: Record) -> None:
        """Takes in what became of an attempt; what is not in flight any more is left alone."""
        event = record["event"]
        if event == "release":
            self._take_back(self.stages[record["stage"]], record["bundle"], record["tasks"])
            return
        if event not in ("done", "fail"):
            return
        name, index = record["stage"], record["index"]
        task = self.in_flight.get((name, index))
        if task is None or (event == "fail" and task.attempt != record["attempt"]):
            return
        del self.in_flight[(name, index)]
        stage = self.stages[name]
        if event == "done":
            seconds = record["seconds"]
            mean = stage.mean_seconds
            stage.mean_seconds = seconds if mean is None else 0.9 * mean + 0.1 * seconds
            self._commit(stage, index, segment, offset, record)
        else:
            self.history.apply(record, segment)
            self._retry_or_fail(stage, index, record)

    def _take_back(self, stage: StageRun, bundle: int, indices: Iterable[int]) -> None:
        """Puts tasks that a worker did not begin back in line."""
        back = []
        for index in indices:
            task = self.in_flight.get((stage.name, index))
            if task is not None and task.bundle == bundle:
                del self.in_flight[(stage.name, index)]
                self._reset(stage, index)
                back.append(index)
        if back:
            stage.look_at(back)

    def _reset(self, stage: StageRun, index: int) -> None:
        stage.history.under_way.pop(index, None)
        stage.history.set(index, TaskState.WAITING)

    def _take_lost(self, number: int, sent: Sent, error: BaseException) -> None:
        """A worker was lost: its segment tells which tasks were done and which one it was at."""
        self._read_segments()
        stage = sent.stage
        for request in sent.requests:
            task = self.in_flight.get((stage.name, request.index))
            if task is None or task.bundle != number:
                continue
            del self.in_flight[(stage.name, request.index)]
            attempt = stage.history.under_way.get(request.index)
            began = attempt is not None and attempt.state == TaskState.RUNNING
            if began and attempt is not None:
                self._lose(stage, request.index, f"its worker was lost: {_first_line(error)}")
            else:
                self._reset(stage, request.index)
                stage.look_at([request.index])

    def _lose(self, stage: StageRun, index: int, message: str) -> None:
        lost = stage.lost[index] = stage.lost.get(index, 0) + 1
        if lost > MAX_LOST:
            self._fail(stage, index, {"class": FailureClass.NODE, "message": message})
        else:
            self._reset(stage, index)
            stage.later(index, time.monotonic() + min(0.1 * 2**lost, MAX_BACKOFF))

    def _retry_or_fail(self, stage: StageRun, index: int, record: Record) -> None:
        kind = record["class"]
        if kind == FailureClass.CANCELLED:
            self._verdict("cancelled", stage, [[index, index]], {})
            self._note_end(stage, index)
            return
        if kind == FailureClass.NODE:
            self._lose(stage, index, record["message"])
            return
        retries = stage.spec.retries
        charged = stage.charged[index] = stage.charged.get(index, 0) + 1
        if charged > retries.limit:
            self._fail(stage, index, record)
            return
        self._reset(stage, index)
        wait = min(retries.backoff * 2 ** (charged - 1), MAX_BACKOFF)
        stage.later(index, time.monotonic() + wait)

    def _fail(self, stage: StageRun, index: int, record: Record) -> None:
        more = {k: record[k] for k in ("class", "message", "exit_code", "stderr_tail", "attempt") if k in record}
        self._verdict("failed", stage, [[index, index]], more)
        self._note_end(stage, index)

    def _commit(self, stage: StageRun, index: int, segment: str, offset: int, record: Record) -> None:
        self.history.apply(record, segment)
        self.results.put(stage.name, index, segment, offset, record)
        self._note_end(stage, index)

    def _note_end(self, stage: StageRun, index: int) -> None:
        """A task ended: those that wait for it may go on, or never."""
        stage.ended += 1
        for link in self.out_of.get(stage.name, []):
            group = link.note_end(index)
            if group is not None and link.down.domain is not None:
                link.down.look_at(link.dependents(group))
        if stage.complete:
            self._open_stages()

    # --- watching -----------------------------------------------------------------------------

    def _poll(self) -> None:
        """What has to be done now and then: heartbeat, requests, slow workers, snapshot."""
        now = time.monotonic()
        if now - self._last_beat > HEARTBEAT:
            self._last_beat = now
            beat(self.paths)
        if now - self._last_poll > POLL:
            self._last_poll = now
            self._read_requests()
            if any(now - sent.since > 3 * POLL for sent in self.sent.values()):
                self._read_segments()
        if now - self._last_snapshot > SNAPSHOT_EVERY:
            self._last_snapshot = now
            self.reader.save()

    def _read_segments(self) -> None:
        """Takes in what workers wrote and did not report yet."""
        news: list[tuple[str, int, Record]] = []
        self.reader.catch_up(lambda segment, offset, record: news.append((segment, offset, record)))
        for segment, offset, record in news:
            self._take_record(segment, offset, record)

    def _read_requests(self) -> None:
        now = changed(self.paths)
        if now == self._requests_seen:
            return
        self._requests_seen = now
        self._cancels = read_cancels(self.paths, self._began)
        if any(cancel.everything for cancel in self._cancels) and self._cancelling_since is None:
            self._cancelling_since = time.monotonic()
        for stage in self.stages.values():
            if stage.domain is not None and any(stage.name in t for c in self._cancels for t in c.targets):
                stage.look_at(range(stage.size))

    # --- writing ------------------------------------------------------------------------------

    def _append(self, record: Record) -> int:
        offset = self.segment.append(record)
        self.reader.offsets[self.segment.name] = self.segment.size
        if record["event"] not in ("done", "cached"):
            self.history.apply(record)
        return offset

    def _verdict(self, event: str, stage: StageRun, tasks: list[list[int]], more: Record) -> None:
        if tasks:
            self._append(
                {"event": event, "stage": stage.name, "tasks": tasks, "time": time.time(), **more}
            )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
