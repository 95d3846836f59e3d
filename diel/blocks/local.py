"""This machine as a backend: cores are counted, and shared by all tasks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from diel.attempt.bundle import Bundle
from diel.attempt.reaper import mark
from diel.blocks.block import Adopt, Outlook
from diel.blocks.service import Holding
from diel.carried import kept_variables
from diel.errors import DielError
from diel.executors.pipes import Pipes
from diel.plan import Plan
from diel.site import Shape
from diel.tasks.ledger import Ledger
from diel.values import format_duration

if TYPE_CHECKING:
    from diel.energy import EnergyMeter

MEASURED_BY = ("/sys/class/powercap", "/dev/nvidiactl")
LONG = 5.0
"""Seconds without a worker after which `status` says what the run waits for."""


class ThisMachine:
    """Worker processes of this machine. `Blocks` explains its methods."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plan = plan
        self._ledger = ledger
        self._pipes: Pipes | None = None
        self._out: dict[int, int] = {}
        self._load = 0
        self._holding: Holding | None = None
        self._meter = self._begin_meter() if any(map(os.path.exists, MEASURED_BY)) else None
        self._waits = False

    def _begin_meter(self) -> EnergyMeter | None:
        from diel.energy import meter_for  # here: few machines tell

        return meter_for(self._ledger.paths.energy / f"{self._ledger.segment.path.stem}.json")

    def line(self, shape: Shape) -> str:
        return ""  # all share the same cores: a task with many of them gets its turn

    def has_room(self, shape: Shape, cores: int) -> bool:
        """Let bundles of one-core tasks wait in twos a core; tasks with several share none of theirs."""
        if not cores:
            return True  # it shares the cores of those that ask it
        capacity = self._capacity
        small = cores == 1 and all(other <= 1 for other in self._out.values())
        return self._load + cores <= (2 * capacity if small else capacity)

    def has_room_for(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        return self._load + sum(cores for _, cores in tasks) <= self._capacity

    def could_hold(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        return sum(cores for _, cores in tasks) <= self._capacity

    @property
    def _capacity(self) -> int:
        return self._plan.capacity - (0 if self._holding is None else self._holding.cores)

    def width(self, shape: Shape) -> int:
        return self._plan.capacity

    def bundles(self, shape: Shape) -> bool:
        return shape.cores == 1 and not shape.nodes

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        if bundle.work.service is not None:
            self._holding = self._holding or Holding(self._plan)
            self._holding.take(bundle, shape, cores)
        else:
            self._out[bundle.number] = cores
            self._load += cores
        if self._pipes is None:
            workers = self._plan.capacity + self._plan.extra_workers
            self._pipes = Pipes(workers, kept_variables(mark(self._ledger.paths.root)))
        return self._pipes.submit(bundle)

    def ended(self, number: int) -> None:
        self._load -= self._out.pop(number, 0)
        if self._holding is not None:
            self._holding.ended(number)

    def tend(self, outlook: Outlook) -> None:
        """Reports problems of workers, and what the run waits for. Raises DielError if none ever started."""
        if self._meter is not None:
            self._meter.look()
        if self._pipes is None:
            return
        self._tell(self._pipes)
        waited, patience = self._pipes.starting, self._plan.site.startup
        if waited > patience:
            raise DielError(
                f"no worker started within {format_duration(patience)}: this machine is busy, or Python "
                f"loads slowly here; `diel doctor` checks it, and `startup` of the site says how long to wait"
            )
        if self._waits != (waited > LONG):
            self._waits = not self._waits
            longest = format_duration(patience)
            told = f"no worker has started yet; they get up to {longest} (`startup` of the site)"
            self._ledger.trouble(told if self._waits else "")

    def _tell(self, pipes: Pipes) -> None:
        while not pipes.news.empty():
            self._ledger.trouble(pipes.news.get())

    def knows(self, since: float) -> bool:
        return True

    def adopt(self, take: Adopt) -> None:
        """Adopts nothing: only a task can outlive its controller here, and the next controller ends it."""

    @property
    def left(self) -> tuple[str, ...]:
        return ()

    def detach(self) -> None:
        self.stop()

    def stop(self) -> None:
        if self._meter is not None:
            self._meter.look(now=True)
        if self._pipes is None:
            return
        with contextlib.suppress(DielError):  # the disk may be full
            self._tell(self._pipes)
        self._pipes.stop()
