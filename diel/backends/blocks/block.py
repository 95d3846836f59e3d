"""A block: one job of a scheduler, as its controller knows it; and when another is worth requesting."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import NamedTuple

from diel.base.errors import DielError
from diel.base.states import FailureClass
from diel.planning.plan import Plan
from diel.site.scheduler import JobState
from diel.site.shape import Shape
from diel.store.journal import records
from diel.worker.attempt.bundle import Bundle

WAITED = 5.0
"""Seconds that a bundle waits for a worker before another block is worth requesting."""
WORTH = 60.0
"""Seconds of work for all workers of a shape that make another block worth requesting."""
TAIL = 2048
"""Bytes of a block's standard error that the journal keeps."""
Adopt = Callable[[str, int, int], None]
"""Counts a task as handed out: its stage, index and attempt."""


class ControllerReplaced(DielError):
    """This controller must stop now; tasks in blocks continue, for the next one to adopt."""


class EngineLost(DielError):
    """The workers of the run's blocks can no longer be reached: its next controller takes them over."""


class Outlook(NamedTuple):
    """What the controller knows of its tasks."""

    backlog: Mapping[str, float]
    """Seconds of queued work, by shape, where run times are known."""
    excluded: frozenset[str]
    """Nodes to avoid."""
    needed: Mapping[str, float] = {}
    """Seconds that the shortest queued tasks have needed so far, by shape."""


@dataclass
class Block:
    """One allocation. Times are seconds since the epoch."""

    name: str
    """Epoch of the controller that asked for it, and a number: `1-0`."""
    shape: Shape
    slots: int
    """Tasks that can run in it side by side."""
    walltime: float
    asked: float
    epoch: int
    """The controller that its nodes work for."""
    number: str = ""
    """Parsl's name of it, within the executor of its shape."""
    tried: bool = False
    """Whether it was requested, maybe unanswered; for a kept one, whether its nodes should come over."""
    job: str = ""
    """The scheduler's id; empty until it gave one."""
    state: JobState = JobState.PENDING
    reason: str = ""
    hopeless: bool = False
    """Whether the scheduler says that it can never run."""
    nodes: str = ""
    began: float | None = None
    ended: float | None = None
    connected: bool = False
    """Whether any of its nodes ever connected."""
    connected_since: float = 0.0
    """Monotonic seconds."""
    ending: bool = False
    """Whether diel has asked for its end."""
    held: bool = False
    """Whether it gets no more tasks because one of its nodes must be avoided."""
    adopted: bool = False
    """Whether its nodes work for an earlier controller: it gets no tasks until one of them comes over."""
    kept: float | None = None
    """When this controller adopted it from an earlier one, in seconds since the epoch."""
    stderr_tail: str = ""
    idle: float = 0.0
    """Seconds that it has been idle."""
    bundles: int = 0
    stuck_since: float | None = None
    free_since: float | None = None
    """Since when no task is known to run in it (monotonic seconds)."""

    @property
    def live(self) -> bool:
        return not self.state.ended

    def takes_tasks(self, now: float, drain: float) -> bool:
        """Return whether it can be given tasks, now or once it has begun."""
        fresh = self.began is None or now < self.began + drain
        return self.live and not (self.ending or self.adopted or self.held) and fresh

    def blame(self, adopted: bool) -> FailureClass:
        """Return why a task was lost with it; an `adopted` task was handed out by an earlier controller."""
        if self.state is JobState.TIMEOUT:  # nobody listened when an adopted task was warned of its end
            return FailureClass.NODE if adopted else FailureClass.WALLTIME
        causes = {JobState.OOM: FailureClass.OOM, JobState.PREEMPTED: FailureClass.PREEMPTED}
        return causes.get(self.state, FailureClass.NODE)

    @property
    def told(self) -> str:
        """How it ended, for messages."""
        reason = f" ({self.reason})" if self.reason and self.reason.lower() != self.state else ""
        return f"its block {self.name} (job {self.job or 'unknown'}) ended: {self.state}{reason}"

    def record(self) -> records.BlockRecord:
        """Return what the journal keeps about it."""
        return {
            "event": "block",
            "block": self.name,
            "job": self.job,
            "epoch": self.epoch,
            "pool": self.shape.pool,
            "shape": self.shape.label,
            "needs": self.shape._asdict(),
            "state": self.state.value,
            "reason": self.reason,
            "hopeless": self.hopeless,
            "nodes": self.nodes,
            "walltime": self.walltime,
            "asked": self.asked,
            "began": self.began,
            "ended": self.ended,
            "ending": self.ending,
            "stderr_tail": self.stderr_tail,
        }


def tail_of(path: Path) -> str:
    """Return the end of a file that may not exist."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        return file.read().decode("utf-8", "replace")
    return ""


def wants_block(
    shape: Shape, out: Sequence[float], usable: Sequence[Block], *, more: bool, backlog: float, now: float
) -> bool:
    """Tell whether another block would help tasks of a shape that are ready. Times are monotonic seconds.
    `out` has when each bundle was handed out, ascending, `usable` the blocks for them, `backlog` the seconds
    of work in line; `more` says whether further tasks are ready and found no room."""
    if not out or not usable:
        return bool(out)
    slots = sum(block.slots for block in usable)
    if len(out) <= slots and not more:
        return False
    if not all(block.connected for block in usable):
        return bool(shape.walltime) and more  # their length is given: ask for all at once
    since = max(block.connected_since for block in usable)
    waiting = out[slots:]
    waited = bool(waiting) and now - max(since, waiting[0]) > WAITED
    return waited or (more and backlog / slots > WORTH)


def is_idle(block: Block, out: int, other_slots: int, patience: float, now: float) -> bool:
    """Tell whether a block has been empty, with nothing for it, for `patience` seconds. `out` counts the
    bundles of its shape, `other_slots` the workers of other blocks; `now` is since the epoch."""
    if out > other_slots or (block.connected and block.bundles):
        return False
    if block.connected:
        return block.idle > patience
    return out == 0 and now - (block.kept or block.asked) > patience


@dataclass
class ServiceLoad:
    """What services hold of a backend while they are up, besides the tasks that ask them."""

    _plan: Plan
    _held: dict[int, tuple[Shape, int]] = field(default_factory=dict)

    def take(self, bundle: Bundle, shape: Shape, cores: int) -> None:
        """Note a bundle if it is a service's."""
        if bundle.work.service is not None:
            self._held[bundle.number] = shape, cores

    def ended(self, number: int) -> None:
        self._held.pop(number, None)

    @property
    def cores(self) -> int:
        return sum(cores for _, cores in self._held.values())

    def room_beside(self, shape: Shape) -> int:
        """Return how many tasks of a shape all blocks of its pool could run, beside services."""
        pool, own, blocks = self._plan.site.pools[shape.pool], 0, 0
        for other, count in Counter(shape for shape, _ in self._held.values()).items():
            if other == shape:
                own = count
            elif other.pool == shape.pool:
                blocks += ceil(count / other.slots(pool))
        return (pool.blocks - blocks) * shape.slots(pool) - own
