"""When an attempt is told to save and when it is stopped."""

from __future__ import annotations

from dataclasses import dataclass

from diel.attempt.block import Block
from diel.attempt.bundle import Job


@dataclass(frozen=True, slots=True)
class Limits:
    """All in seconds since the epoch; None where there is no such limit."""

    deadline: float | None = None
    """The earliest of all."""
    interrupt: float | None = None
    """When a task that keeps checkpoints is told to save one and stop."""
    walltime: float | None = None
    block: float | None = None


def limits_of(job: Job, began: float, block: Block | None) -> Limits:
    """The limits of an attempt. Without a block nothing is stopped by its walltime."""
    timeout = None if job.timeout is None else began + job.timeout
    if block is None:
        return Limits(deadline=timeout)
    walltime = None if job.walltime is None else began + job.walltime
    stop = block.end if walltime is None else min(walltime, block.end)
    deadline = stop if timeout is None else min(stop, timeout)
    interrupt = None
    if job.checkpoint:
        left = max(0.0, stop - began)
        # Where the grace would be all that there is, half of it goes to work.
        interrupt = stop - (job.grace if job.grace < left else left / 2)
    return Limits(deadline, interrupt, walltime, block.end)
