"""This machine as a backend: cores are counted, and shared by all tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from diel.controller.backend import Outlook
from diel.controller.ledger import Ledger
from diel.errors import DielError
from diel.executors.pipes import Pipes
from diel.journal.segment import segments
from diel.plan import Plan
from diel.site import Shape
from diel.worker.bundle import Bundle
from diel.worker.reaper import kill_marked

if TYPE_CHECKING:
    from diel.controller.dispatcher import Dispatcher
    from diel.executors.parsl import Engine

START_SECONDS = 60.0
"""How long the first worker may take to start."""
STUCK_SECONDS = 10.0
"""How long bundles may be out without any worker at a task, before workers are started anew."""


class Local:
    """Worker processes of this machine."""

    def __init__(self, plan: Plan, ledger: Ledger, epoch: int) -> None:
        self._plan = plan
        self._ledger = ledger
        self._epoch = epoch
        self._engine: Engine | None = None
        self._out: dict[int, int] = {}
        self._load = 0
        self._services: dict[int, int] = {}
        """The cores that services hold for as long as they are up, by bundle."""
        self._since = 0.0
        self._workers_seen = False
        self._workers_before = 0

    def line(self, shape: Shape) -> str:
        return ""  # all share the same cores: a task with many of them gets its turn

    def has_room(self, shape: Shape, cores: int) -> bool:
        """Bundles of one-core tasks wait in twos for each core, so that no worker idles between them.

        Tasks with several cores are never started beside what would share these.
        """
        if not cores:
            return True  # a service that shares the cores of those that ask it
        capacity = self._left_by_services
        small = cores == 1 and all(other <= 1 for other in self._out.values())
        return self._load + cores <= (2 * capacity if small else capacity)

    def has_room_for(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        return self._load + sum(cores for _, cores in tasks) <= self._left_by_services

    def could_hold(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        return sum(cores for _, cores in tasks) <= self._left_by_services

    @property
    def _left_by_services(self) -> int:
        return self._plan.capacity - sum(self._services.values())

    def width(self, shape: Shape) -> int:
        return self._plan.capacity

    def bundles(self, shape: Shape) -> bool:
        return shape.cores == 1 and not shape.nodes

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        if not self._out:
            self._since = time.monotonic()
        if bundle.job.service is not None:
            self._services[bundle.number] = cores
        else:
            self._out[bundle.number] = cores
            self._load += cores
        return self._start().submit(bundle)

    def ended(self, number: int) -> None:
        self._load -= self._out.pop(number, 0)
        self._services.pop(number, None)

    def _start(self) -> Engine:
        if self._engine is None:
            workers = self._plan.capacity + self._plan.extra_workers
            pipes = Pipes(workers) if self._plan.executor == "threads" else None
            from diel.executors.parsl import Engine  # slow: not where all is cached, and after the pipes

            self._engine = Engine(workers, self._ledger.paths.logs, pipes)
        return self._engine

    def tend(self, outlook: Outlook) -> bool:
        """Starts workers anew where none is at a task for long.

        A worker that is killed while it waits takes the lock of Parsl's task queue with it, and then
        no other worker of its pool ever gets a task again. Raises DielError where no worker ever came.
        """
        if not self._out:
            return False
        if not self._workers_seen:
            self._expect_workers()
            return False
        if outlook.quiet < STUCK_SECONDS or outlook.running:
            return False
        self.stop()
        self._engine = None
        kill_marked("DIEL_RUN_DIR", str(self._ledger.paths.root))
        self._workers_seen = False
        self._workers_before = len(self._own_workers())
        self._since = time.monotonic()
        return True

    def _expect_workers(self) -> None:
        """Raises DielError where tasks wait and no worker has shown up: they would wait for ever."""
        self._workers_seen = len(self._own_workers()) > self._workers_before
        if not self._workers_seen and time.monotonic() - self._since > START_SECONDS:
            raise DielError(
                f"no worker started within {START_SECONDS:.0f} s; "
                f"what Parsl says of it is below {self._ledger.paths.logs}; `diel doctor` checks this machine"
            )

    def _own_workers(self) -> list[str]:
        began = f"worker-{self._epoch:04d}-"
        return [name for name in segments(self._ledger.paths.journal) if name.startswith(began)]

    def knows(self, since: float) -> bool:
        return True

    def adopt(self, dispatcher: Dispatcher) -> None:
        """Nothing here outlives its controller for long: what was left is ended by who takes over."""

    @property
    def left(self) -> tuple[str, ...]:
        return ()

    def detach(self) -> None:
        self.stop()

    def stop(self) -> None:
        if self._engine is not None:
            self._engine.stop()
