"""The controller of one run: from the first ready task to the last committed result.

One thread decides everything: it finds tasks that must run, hands bundles of them to Parsl, and
takes in what became of them, until every task has ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from queue import Empty

from diel.cache import Cache
from diel.controller.dispatcher import Dispatcher, Sent
from diel.controller.finder import Finder
from diel.controller.intake import Intake
from diel.controller.ledger import Ledger
from diel.controller.results import Results
from diel.controller.stage_run import StageRun
from diel.controller.stages import Stages
from diel.errors import DielError
from diel.journal.history import History, ranges
from diel.journal.segment import SegmentWriter, segments
from diel.lease import HEARTBEAT, Lease, beat
from diel.paths import RunPaths
from diel.plan import Plan
from diel.requests import changed, read_cancels
from diel.run_file import RunFile
from diel.states import RunState, TaskState
from diel.worker.reaper import kill_marked

LOOK_SECONDS = 0.1
"""Longest time spent looking for ready tasks before finished ones are taken in."""
POLL = 0.5
"""Seconds between two looks at what users ask and at workers that are slow to report."""
SLOW = 1.5
"""Seconds after which a bundle counts as slow to report."""
SNAPSHOT_EVERY = 5.0
START_SECONDS = 60.0
"""How long the first worker may take to start."""
STUCK_SECONDS = 10.0
"""How long bundles may be out without any worker at a task, before workers are started anew."""
STOP_SECONDS = 10.0
"""How long cancelled tasks may take to end."""

Watch = Callable[[History], None]


class Controller:
    """Drives one run in this process."""

    def __init__(
        self, plan: Plan, run_file: RunFile, paths: RunPaths, lease: Lease, segment: SegmentWriter
    ) -> None:
        self._began = time.time()  # requests made from now on are for this controller
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
        self._dispatcher = Dispatcher(plan, self._ledger, lease.epoch)
        self._intake = Intake(self._stages, self._ledger, self._dispatcher)
        self._cancelling_since: float | None = None
        self._requests_seen = 0.0
        self._epoch = lease.epoch
        self._workers_seen = False
        self._workers_before = 0
        self._last_beat = self._last_poll = self._last_snapshot = self._last_progress = time.monotonic()

    @property
    def stages(self) -> Mapping[str, StageRun]:
        """The stages as they run, for those who watch."""
        return self._stages.runs

    @property
    def sent(self) -> Mapping[int, Sent]:
        """The bundles that are out, for those who watch."""
        return self._dispatcher.sent

    @property
    def results(self) -> Results:
        """The committed results, for those who watch."""
        return self._ledger.results

    def drive(self, watch: Watch) -> RunState:
        """Runs to the end; returns the run's state. KeyboardInterrupt leaves the run interrupted."""
        before = os.environ.get("DIEL_RUN_DIR")
        os.environ["DIEL_RUN_DIR"] = str(self.paths.root)  # marks every process of the run
        state = RunState.INTERRUPTED
        try:
            self._stages.open()
            while not self._is_over():
                self._fill()
                self._take_finished()
                watch(self.history)
                self._poll()
            state = self._end_state()
        finally:
            self._dispatcher.stop()
            kill_marked("DIEL_RUN_DIR", str(self.paths.root))
            self._ledger.close(state)
            watch(self.history)
            if before is None:
                del os.environ["DIEL_RUN_DIR"]
            else:
                os.environ["DIEL_RUN_DIR"] = before
        return state

    def _is_over(self) -> bool:
        in_flight = bool(self._dispatcher.in_flight)
        if self._cancelling_since is not None:
            return not in_flight or time.monotonic() - self._cancelling_since > STOP_SECONDS
        if in_flight:
            return False
        if self._stages.complete:
            return True
        if not any(self._finder.has_work(stage) for stage in self._stages.runs.values()):
            stuck = ", ".join(stage.name for stage in self._stages.runs.values() if not stage.complete)
            raise DielError(f"nothing runs and nothing is ready, but not done: {stuck}")
        return False

    def _fill(self) -> None:
        """Hands out bundles while there is room; later stages go first."""
        if self._cancelling_since is not None:
            return
        until = time.monotonic() + LOOK_SECONDS
        while time.monotonic() < until and self._hand_out_one(until):
            pass
        self._finder.flush()

    def _hand_out_one(self, until: float) -> bool:
        """Hands out one bundle of the first stage that has ready tasks; False where that has no room.

        Nothing of a later stage in line goes before it, so that a task with many cores gets its turn.
        """
        for stage in self._stages.deepest_first:
            if self._finder.has_work(stage):
                tasks = self._finder.ready_tasks(stage, self._dispatcher.bundle_size(stage), until)
                if tasks and self._dispatcher.has_room(stage):
                    self._dispatcher.send(stage, self._stages.recipes[stage.name].job, tasks)
                    return True
                if tasks:
                    self._finder.hold(stage, tasks)
                    return False
        return False

    def _take_finished(self) -> None:
        """Takes in what finished; waits a moment where there is nothing else to do."""
        finished = self._dispatcher.finished
        try:
            item = finished.get(timeout=self._patience())
            while True:
                self._last_progress = time.monotonic()
                self._intake.take(*item)
                item = finished.get_nowait()
        except Empty:
            pass

    def _patience(self) -> float:
        """Seconds to wait for something to finish."""
        stages = self._stages.runs.values()
        if self._cancelling_since is None and any(self._can_do_more(stage) for stage in stages):
            return 0.0005
        wakes = [wake for stage in stages if (wake := stage.next_wake()) is not None]
        return max(0.0, min([POLL / 5, *(wake - time.monotonic() for wake in wakes)]))

    def _can_do_more(self, stage: StageRun) -> bool:
        return self._finder.has_work_now(stage) and self._dispatcher.has_room(stage)

    def _poll(self) -> None:
        """What has to be done now and then: heartbeat, requests, slow workers, snapshot."""
        now = time.monotonic()
        if now - self._last_beat > HEARTBEAT:
            self._last_beat = now
            beat(self.paths)
        if now - self._last_poll > POLL:
            self._last_poll = now
            self._read_requests()
            self._expect_workers(now)
            if any(now - sent.since > SLOW for sent in self._dispatcher.sent.values()):
                self._look_after_slow(now)
        if now - self._last_snapshot > SNAPSHOT_EVERY:
            self._last_snapshot = now
            self._ledger.save()

    def _look_after_slow(self, now: float) -> None:
        """Reads what slow workers wrote; starts others in place of workers that do nothing at all."""
        if self._intake.read_news():
            self._last_progress = now
        self._dispatcher.drop_settled()
        if self._workers_seen and now - self._last_progress > STUCK_SECONDS and not self._is_running_any():
            self._dispatcher.restart()
            self._last_progress, self._workers_seen = now, False
            self._workers_before = len(self._own_workers())

    def _is_running_any(self) -> bool:
        """Whether a worker is known to be at a task."""
        under_way = (
            self._stages.runs[name].history.under_way.get(index) for name, index in self._dispatcher.in_flight
        )
        return any(one is not None and one.state == TaskState.RUNNING for one in under_way)

    def _expect_workers(self, now: float) -> None:
        """Raises DielError where tasks wait and no worker has shown up: they would wait for ever."""
        sent = self._dispatcher.sent.values()
        if self._workers_seen or not sent:
            return
        self._workers_seen = len(self._own_workers()) > self._workers_before
        if not self._workers_seen and now - min(one.since for one in sent) > START_SECONDS:
            raise DielError(
                f"no worker started within {START_SECONDS:.0f} s; "
                f"what Parsl says of it is below {self.paths.logs}; `diel doctor` checks this machine"
            )

    def _own_workers(self) -> list[str]:
        began = f"worker-{self._epoch:04d}-"
        return [name for name in segments(self.paths.journal) if name.startswith(began)]

    def _read_requests(self) -> None:
        now = changed(self.paths)
        if now == self._requests_seen:
            return
        self._requests_seen = now
        cancels = read_cancels(self.paths, self._began)
        if any(cancel.everything for cancel in cancels):
            self._cancelling_since = self._cancelling_since or time.monotonic()
        else:
            self._finder.cancel(cancels)

    def _end_state(self) -> RunState:
        if self._cancelling_since is not None:
            for stage in self._stages.runs.values():
                left = (i for i in range(stage.size) if not stage.history.state(i).ended)
                self._ledger.verdict("cancelled", stage, ranges(left))
            return RunState.CANCELLED
        counts = [stage.history.counts() for stage in self._stages.runs.values()]
        void = any(stage.void for stage in self._stages.runs.values())
        if void or any(count["failed"] for count in counts):
            return RunState.FAILED
        return RunState.CANCELLED if any(c["cancelled"] for c in counts) else RunState.SUCCEEDED
