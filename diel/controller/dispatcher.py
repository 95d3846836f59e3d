"""Handing tasks to Parsl in bundles, as many as the site has room for."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

from diel.controller.ledger import Ledger
from diel.controller.recipe import Resolved
from diel.controller.stage_run import StageRun
from diel.executors.pipes import Pipes
from diel.plan import Plan
from diel.states import TaskState
from diel.worker.bundle import Bundle, Job, Request
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


class Dispatcher:
    """Knows what is in flight, and whether more fits."""

    def __init__(self, plan: Plan, ledger: Ledger, epoch: int) -> None:
        self._plan = plan
        self._ledger = ledger
        self._epoch = epoch
        self._engine: Engine | None = None
        self._bundles = 0
        self._load = 0
        self.in_flight: dict[tuple[str, int], InFlight] = {}
        self.sent: dict[int, Sent] = {}
        self.finished: SimpleQueue[tuple[int, Future[bytes]]] = SimpleQueue()
        """Bundles that ended, told by Parsl's threads."""

    def has_room(self, stage: StageRun) -> bool:
        """Whether a task of a stage may be handed out.

        Bundles of one-core tasks wait in twos for each core, so that no worker idles between them;
        tasks with several cores are never started beside what would share these.
        """
        cores = self._plan.stages[stage.name].cores
        capacity = self._plan.capacity
        small = cores == 1 and all(sent.cores == 1 for sent in self.sent.values())
        return self._load + cores <= (2 * capacity if small else capacity)

    def bundle_size(self, stage: StageRun) -> int:
        """How many tasks to hand out at once: a fraction of a second's work, and a fair share."""
        if self._plan.stages[stage.name].cores > 1:
            return 1
        fair = max(1, (stage.size - stage.ended) // (2 * self._plan.capacity))
        if stage.mean_seconds is None:
            return min(FIRST_BUNDLE, fair)
        return max(1, min(int(BUNDLE_SECONDS / (stage.mean_seconds + OVERHEAD)), fair, MAX_BUNDLE))

    def send(self, stage: StageRun, job: Job, tasks: list[tuple[int, Resolved]]) -> None:
        """Hands out a bundle, written down first: an attempt's number is never given twice."""
        self._bundles += 1
        number = self._bundles
        before = stage.history.attempts
        requests = tuple(resolved.request(i, before.get(i, 0) + 1) for i, resolved in tasks)
        again = any(request.attempt > 1 for request in requests)
        more = {"attempts": [request.attempt for request in requests]} if again else {}
        indices = [request.index for request in requests]
        self._ledger.append("queued", stage=stage.name, bundle=number, tasks=indices, **more)
        for request in requests:
            self.in_flight[(stage.name, request.index)] = InFlight(number, request.attempt)
        cores = self._plan.stages[stage.name].cores
        self.sent[number] = Sent(stage, requests, cores, time.monotonic())
        self._load += cores
        root = str(self._ledger.paths.root)
        bundle = Bundle(number, root, self._epoch, job, requests, 2 * BUNDLE_SECONDS)
        future = self._start_engine().submit(bundle)
        future.add_done_callback(lambda done: self.finished.put((number, done)))

    def pop(self, number: int) -> Sent | None:
        """A bundle ended: its cores are free."""
        sent = self.sent.pop(number, None)
        if sent is not None:
            self._load -= sent.cores
        return sent

    def take_back(self, stage: StageRun, bundle: int, indices: Iterable[int]) -> None:
        """Puts tasks that a worker did not begin back in line."""
        back = []
        for index in indices:
            task = self.in_flight.get((stage.name, index))
            if task is not None and task.bundle == bundle:
                del self.in_flight[(stage.name, index)]
                reset(stage, index)
                back.append(index)
        if back:
            stage.look_at(back)

    def drop_settled(self) -> None:
        """Forgets bundles whose tasks are all settled by what workers wrote, though no report came."""
        out = {task.bundle for task in self.in_flight.values()}
        for number in [number for number in self.sent if number not in out]:
            self.pop(number)

    def restart(self) -> None:
        """Ends workers that answer no more, and puts what they had back in line.

        A worker that is killed while it waits takes the lock of Parsl's task queue with it, and then
        no other worker of its pool ever gets a task again.
        """
        self.stop()
        self._engine = None
        kill_marked("DIEL_RUN_DIR", str(self._ledger.paths.root))
        for number, sent in list(self.sent.items()):
            self.pop(number)
            self.take_back(sent.stage, number, [request.index for request in sent.requests])

    def _start_engine(self) -> Engine:
        if self._engine is None:
            workers = self._plan.capacity
            pipes = Pipes(workers) if self._plan.executor == "threads" else None
            from diel.executors.parsl import Engine  # slow: not where all is cached, and after the pipes

            self._engine = Engine(workers, self._ledger.paths.logs, pipes)
        return self._engine

    def stop(self) -> None:
        """Ends the workers."""
        if self._engine is not None:
            self._engine.stop()


def reset(stage: StageRun, index: int) -> None:
    """A task that was handed out has to be handed out again."""
    stage.history.under_way.pop(index, None)
    stage.history.set(index, TaskState.WAITING)
