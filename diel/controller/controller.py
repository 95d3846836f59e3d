"""The controller of one run: one thread hands out what must run, and takes in what became of it."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from itertools import chain
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING

from diel.backends.blocks.block import Block, ControllerReplaced, EngineLost, Outlook
from diel.backends.blocks.blocks import Blocks
from diel.backends.blocks.dispatcher import Dispatcher, SentBundle
from diel.backends.blocks.local import ThisMachine
from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.base.states import FailureClass, RunState, TaskState
from diel.controller.export import Exporter
from diel.controller.finder import Finder
from diel.controller.gang import Gangs
from diel.controller.intake import Intake
from diel.controller.stages import Stages
from diel.controller.stop_policy import StopPolicy, has_failed
from diel.planning.plan import Plan
from diel.site.scheduler import scheduler_named
from diel.site.scheduler.allocation import inside_here
from diel.site.shape import within
from diel.store.journal.history import History
from diel.store.journal.segment import SegmentWriter
from diel.store.journal.stage_history import ranges
from diel.store.project.cache import Cache
from diel.store.project.lease import HEARTBEAT, Lease, beat, clear_up, still_mine
from diel.store.project.requests import changed, read_cancels
from diel.store.project.run_file import RunFile
from diel.tasks.ledger import Ledger
from diel.tasks.results import Results
from diel.tasks.stage_run import StageRun
from diel.worker.attempt.reaper import kill_marked

if TYPE_CHECKING:
    from diel.controller.notify import Notices
    from diel.store.journal.records import WorkerFacts
    from diel.worker.attempt.bundle import Request

LOOK_SECONDS = 0.1
"""Longest time to look for ready tasks before finished ones are handled."""
POLL = 0.5
"""Seconds between two looks at users' requests and at workers that are slow to report."""
SLOW = 1.5
"""Seconds after which a bundle counts as slow to report."""
SNAPSHOT_EVERY = 5.0
STOP_SECONDS = 10.0
"""Seconds that cancelled tasks may take to end."""

Watch = Callable[[History], None]


class ResultChanged(Exception):
    """A result that was made again is another than before: the next controller computes what rests on it."""


class Controller:
    """Drives one run in this process."""

    def __init__(
        self, plan: Plan, run_file: RunFile, paths: RunPaths, lease: Lease, segment: SegmentWriter
    ) -> None:
        self.plan = plan
        self.run_file = run_file
        self.paths = paths
        self._ledger = Ledger(paths, segment)
        self._ledger.read_all()
        self.history = self._ledger.history
        self._stages = Stages(plan, run_file, self._ledger)
        cache = Cache(paths.root.parent, paths) if run_file.use_cache else None
        anew = plan.graph.after(run_file.begin_at) if run_file.begin_at else frozenset()
        self._finder = Finder(self._stages, self._ledger, cache, anew)
        self._epoch = lease.epoch
        self._lease = lease
        self._backend = self._make_backend()
        self._dispatcher = Dispatcher(plan, self._ledger, lease.epoch, self._backend)
        parts = (self._stages, self._ledger, self._finder, self._dispatcher)
        self._stopping = StopPolicy(*parts, run_file.fail_fast)
        exports = plan.workflow.any_stage(lambda stage: stage.exports)
        self._exporter = Exporter(plan.checked, Path(run_file.source), paths) if exports else None
        self._gangs = Gangs(plan, *parts) if self._stages.streams else None
        self._intake = Intake(self._stages, self._ledger, self._dispatcher, plan.fits)
        if plan.executor == "blocks":
            self._intake.advice = f"see {paths.blocks}, and `diel doctor --site {plan.site.name} --job`"
        self._notices: Notices | None = None
        if run_file.tells:
            from diel.controller.notify import notices_for  # here: few runs tell anybody

            self._notices = notices_for(self._ledger, plan.site, run_file)
        self._limbo: list[tuple[int, Future[bytes], float]] = []
        self._cancelling_since: float | None = None
        self._requests_seen = 0.0
        self._is_let_go = False
        self.refused: Mapping[tuple[str, int], str] = {}
        """Tasks that are not tried, and why: made again, they gave another result than decisions rest on."""
        self._born = self._last_beat = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._listen_at = math.inf
        self._last_poll = self._last_snapshot = time.monotonic()

    def _make_backend(self) -> ThisMachine | Blocks:
        if self.plan.executor != "blocks":
            return ThisMachine(self.plan, self._ledger)
        plan = self.plan
        scheduler = scheduler_named(plan.site.scheduler)
        if inside := inside_here(scheduler):
            scheduler, plan = inside, plan._replace(site=within(plan.site, inside.size))
        return Blocks(plan, self._ledger, self._epoch, scheduler, self._note_block_end, self._busy_blocks)

    @property
    def stages(self) -> Mapping[str, StageRun]:
        """The running stages, for displays."""
        return self._stages.runs

    @property
    def sent(self) -> Mapping[int, SentBundle]:
        return self._dispatcher.sent

    @property
    def results(self) -> Results:
        return self._ledger.results

    def drive(self, watch: Watch, until: float | None = None) -> RunState:
        """Run to the end, and return the run's state. KeyboardInterrupt leaves the run interrupted. At
        `until` (time.monotonic seconds) let go of it and of what runs in blocks, for the next controller."""
        state = RunState.INTERRUPTED
        leave: Callable[[RunState], None] = self._end
        try:
            self._backend.adopt(self._dispatcher.adopt)
            self._stages.open()
            if self._exporter is not None:
                self._exporter.begin(self._stages, self._ledger)
            self._ledger.on_failure = self._stopping.note
            if self._gangs is not None:
                self._gangs.take_up()
            for (name, index), message in self.refused.items():
                self._ledger.fail(
                    self.stages[name], index, {"class": FailureClass.CHANGED, "message": message}
                )
                self._stages.note_end(self._stages.runs[name], index)
            while self._is_remade() or not self._is_over():
                is_time = self._is_let_go or (until is not None and time.monotonic() > until)
                if is_time and self._cancelling_since is None:
                    leave = self._hand_over
                    break
                self._fill()
                self._take_finished()
                watch(self.history)
                self._poll()
            else:
                state = self._end_state()
        except (EngineLost, ResultChanged):
            leave = self._hand_over
            raise
        except ControllerReplaced:
            leave = self._let_go
            raise
        except Exception as error:
            with contextlib.suppress(DielError):  # the disk may be full
                self._ledger.trouble(str(error) or type(error).__name__)
            raise
        finally:
            with contextlib.ExitStack() as last:
                last.callback(leave, state)
                if self._exporter is not None:
                    self._exporter.close()
            watch(self.history)
        return state

    def _is_remade(self) -> bool:
        """Return whether a result is another than before; raise Remade once nothing runs."""
        if not self._stages.are_others or self._cancelling_since is not None:
            return False
        serving, running = self._stages.serving, self._dispatcher.in_flight
        if running if serving is None else serving.are_others(running):
            return True
        raise ResultChanged

    def note(self, trouble: str) -> None:
        """Make `status` show what went wrong."""
        self._ledger.trouble(trouble)

    def let_go(self) -> None:
        """Let go of the run at the next look, as at the end of `until`."""
        self._is_let_go = True

    @property
    def left(self) -> tuple[str, ...]:
        """Jobs of the run that have not ended, according to the scheduler."""
        return self._backend.left

    def _end(self, state: RunState) -> None:
        self._backend.stop()
        self._end_processes()
        clear_up(self.paths)
        if self._notices is not None:
            self._notices.end(state)
        self._ledger.close(state)
        if self._notices is not None:
            self._notices.close()

    def abandon(self) -> None:
        """Kill the run's processes on this machine, for a process that ends at once; blocks continue."""
        kill_marked("DIEL_RUN_DIR", str(self.paths.root), without="DIEL_BLOCK")

    def _let_go(self, _: RunState) -> None:
        self._backend.detach()
        self._end_processes(without="DIEL_BLOCK")

    def _end_processes(self, without: str | None = None) -> None:
        if self._gangs is not None:
            self._gangs.streaming.stop()
        kill_marked("DIEL_RUN_DIR", str(self.paths.root), without=without)

    def _hand_over(self, state: RunState) -> None:
        """Hand the run to the next controller, which adopts what runs in blocks."""
        self._let_go(state)
        self._intake.read_news()
        self._ledger.hand_over()

    def _running(self) -> "Iterator[tuple[str, int, WorkerFacts]]":
        """Yield the tasks that are known to run in blocks, each with its worker."""
        for name, index in list(self._dispatcher.in_flight):
            attempt = self.history.stage(name).under_way.get(index)
            if attempt is not None and attempt.state == TaskState.RUNNING:
                worker = self.history.workers.get(attempt.worker)
                if worker is not None:
                    yield name, index, worker

    def _busy_blocks(self) -> set[str]:
        return {worker["block"] for _, _, worker in self._running()}

    def _note_block_end(self, block: Block) -> None:
        """Take the end of a block: tasks known to run there are lost; others wait for Parsl's report."""
        self._intake.give_up_block(block.name)
        for name, index, worker in self._running():
            if worker["block"] == block.name:
                blame = block.blame(self._dispatcher.in_flight[name, index].adopted)
                self._intake.lose(self._stages.runs[name], index, blame, block.told, worker["node"])

    def _is_over(self) -> bool:
        in_flight = bool(self._dispatcher.in_flight)
        if self._cancelling_since is not None:
            too_long = time.monotonic() - self._cancelling_since > STOP_SECONDS
            return too_long or not (in_flight or self._is_exporting())
        if (over := self._stopping.is_over()) is not None:
            return over and not self._is_exporting()
        if in_flight:
            return False
        if self._stages.complete:
            return not self._is_exporting()
        serving, stages = self._stages.serving, self._stages.runs.values()
        if not (serving is not None and serving.is_busy) and not any(map(self._finder.has_work, stages)):
            stuck = ", ".join(stage.name for stage in stages if not stage.complete)
            raise DielError(f"nothing runs and nothing is ready, but not done: {stuck}")
        return False

    def _is_exporting(self) -> bool:
        return self._exporter is not None and self._exporter.busy

    def _fill(self) -> None:
        """Hand out bundles while there is room; later stages go first."""
        if self._cancelling_since is not None or self._stopping.over or self._stages.are_others:
            return
        until = time.monotonic() + LOOK_SECONDS
        while time.monotonic() < until and self._hand_out_one(until):
            pass
        self._finder.flush()

    def _hand_out_one(self, until: float) -> bool:
        """Hand out one bundle of the first stage with ready tasks and room; False if none has. Nothing of a
        later stage in the same line goes before it, so that a task with many cores gets its turn."""
        full: set[str] = set()
        for stage in self._stages.deepest_first:
            if self._gangs is not None and self._gangs.holds(stage):
                if self._gangs.hand_out(stage, full, until):
                    return True
            elif self._finder.has_work(stage):
                size = self._dispatcher.bundle_size(stage, self._dispatcher.shape(stage))
                size += self._finder.spare(stage)
                tasks = self._finder.ready_tasks(stage, size, until)
                if not tasks:
                    continue
                if self._hand_out_some(stage, tasks, full):
                    return True
        return False

    def _hand_out_some(self, stage: StageRun, tasks: "list[Request]", full: set[str]) -> bool:
        """Hand out a bundle of tasks that ask for the same; others wait in the lines `full`."""
        for shape, alike in self._dispatcher.alike(stage, tasks):
            first = alike[0].index
            if self._dispatcher.backend.line(shape) in full:
                continue
            if self._dispatcher.has_room(stage, shape, first):
                handed = {task.index for task in alike}
                self._finder.hold(stage, [task for task in tasks if task.index not in handed])
                self._dispatcher.send(stage, shape, self._stages.work_of(stage, first), alike)
                return True
            if self._dispatcher.could_hold([(stage, first)]):
                full.add(self._dispatcher.backend.line(shape))
        self._finder.hold(stage, tasks)
        return False

    def _take_finished(self) -> None:
        """Handle finished bundles; wait a moment if there is nothing else to do."""
        finished = self._dispatcher.finished
        with contextlib.suppress(Empty):
            number, future = finished.get(timeout=self._patience())
            while True:
                self._take(number, future, time.monotonic())
                number, future = finished.get_nowait()

    def _take(self, number: int, future: Future[bytes], since: float) -> None:
        """Handle a bundle that ended; one lost with its worker once the scheduler said why."""
        if future.exception() is None or self._backend.knows(since):
            report = self._intake.take(number, future)
            if report is not None and report.missing:
                self._stopping.lack(self.plan, report)
        else:
            self._limbo.append((number, future, since))

    def _patience(self) -> float:
        stages = self._stages.runs.values()
        if self._cancelling_since is None and any(self._can_do_more(stage) for stage in stages):
            return 0.0005
        wakes = [wake for stage in stages if (wake := stage.next_wake()) is not None]
        return max(0.0, min([POLL / 5, *(wake - time.monotonic() for wake in (*wakes, self._listen_at))]))

    def _can_do_more(self, stage: StageRun) -> bool:
        if self._gangs is not None and self._gangs.holds(stage):
            return stage.has_pending  # what is ready waits for room for all of its gang
        shape = self._dispatcher.shape(stage)
        return self._finder.has_work_now(stage) and self._dispatcher.has_room(stage, shape)

    def _poll(self) -> None:
        """Do what is due now and then: heartbeat, requests, slow workers, snapshot."""
        now = time.monotonic()
        awake = time.clock_gettime(time.CLOCK_BOOTTIME)  # it counts on while the machine sleeps
        # More often at first: the last one shows how long a run lasted whose controller was killed.
        if awake - self._last_beat > min(HEARTBEAT, (awake - self._born) / 4):
            self._last_beat = awake
            if not still_mine(self.paths, self._lease):
                raise ControllerReplaced(f"another controller drives {self.paths.run_id}; this one stops")
            beat(self.paths)
        self._listen_at = min(
            (decider.listen() for decider in self._stages.deciders.values()), default=math.inf
        )
        if now - self._last_poll > POLL:
            self._last_poll = now
            self._read_requests()
            self._stages.tend()
            if self._gangs is not None:
                self._gangs.streaming.tend()
            if self._stages.serving is not None:
                self._stages.serving.tend(chain(self._dispatcher.in_flight, self._finder.held))
            slow = any(now - sent.since > SLOW for sent in self._dispatcher.sent.values())
            if slow or any(task.adopted for task in self._dispatcher.in_flight.values()):
                self._intake.read_news()  # workers of an earlier controller report to nobody
                self._dispatcher.drop_settled()
            self._backend.tend(Outlook(self._backlog(), frozenset(self._intake.excluded), self._needed()))
            if self._notices is not None:
                self._notices.tend()
            waiting, self._limbo = self._limbo, []
            for lost in waiting:
                self._take(*lost)
        if now - self._last_snapshot > SNAPSHOT_EVERY:
            self._last_snapshot = now
            if self._exporter is not None:
                self._exporter.tell()
            self._ledger.reader.save()

    def _backlog(self) -> dict[str, float]:
        """Return seconds of queued work, by the shape of its tasks, where their run time is known."""
        shares: dict[str, float] = {}
        for stage in self._stages.runs.values():
            if stage.mean_seconds is not None and self._finder.has_work(stage):
                near, shapes = min(stage.size - stage.ended, stage.at_once), self._dispatcher.shapes(stage)
                for shape in shapes:
                    share = near * stage.mean_seconds / len(shapes)
                    shares[shape.label] = shares.get(shape.label, 0.0) + share
        return shares

    def _needed(self) -> dict[str, float]:
        """Return seconds that the shortest queued tasks must have left in a block, by their shape."""
        needs: dict[str, float] = {}
        for stage in self._stages.runs.values():
            if not stage.complete and (self._finder.has_work(stage) or stage.history.under_way):
                for shape in self._dispatcher.shapes(stage):
                    needs[shape.label] = min(stage.needed_seconds, needs.get(shape.label, math.inf))
        return needs

    def _read_requests(self) -> None:
        now = changed(self.paths)
        if now == self._requests_seen:
            return
        self._requests_seen = now
        cancels = read_cancels(self.paths)
        if any(cancel.everything for cancel in cancels):
            self._cancelling_since = self._cancelling_since or time.monotonic()
        else:
            self._finder.cancel(cancels)
        self._stopping.release()

    def _end_state(self) -> RunState:
        if self._cancelling_since is not None:
            for stage in self._stages.runs.values():
                unended = (i for i in range(stage.size) if not stage.history.state(i).ended)
                self._ledger.cancel(stage, ranges(unended))
            return RunState.CANCELLED
        if self._stopping.over:
            self._stopping.leave_all()
        counts = [stage.history.counts() for stage in self._stages.runs.values()]
        may_have_failed = self._stages.adaptive or any(count["failed"] for count in counts)
        failed = may_have_failed and has_failed(self._stages, self._ledger)
        flawed = self.history.is_doubted() or (self._exporter is not None and self._exporter.failures)
        stages = self._stages.runs.values()
        if failed or flawed or any(stage.void or stage.history.held for stage in stages):
            return RunState.FAILED
        return RunState.CANCELLED if any(c["cancelled"] for c in counts) else RunState.SUCCEEDED
