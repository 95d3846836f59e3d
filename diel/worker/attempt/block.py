"""The block of a worker, what fits into it, and the limits that it sets for an attempt."""

import math
import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from diel.worker.attempt.bundle import Work

MARGIN = 5.0
"""Seconds before a block's end at which its tasks are stopped, so that their end can be recorded."""
LEAST = 1.0
"""Seconds that a task without a walltime must have left to be started."""
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
"""What Parsl sets on a worker with GPUs: always all three."""


class BlockHere(NamedTuple):
    """An allocation with an end."""

    name: str
    end: float
    """When its tasks are stopped: seconds since the epoch."""
    fresh: float = 0.0
    """Until then any task starts, since no later block would have more time: seconds since the epoch."""
    length: float = 0.0
    """Its walltime: longer tasks never fit."""

    def has_room(self, work: Work, now: float, needed: float = 0.0) -> bool:
        """Tell whether a task that takes `needed` seconds, or saves, fits in before the block ends."""
        if work.walltime is not None:
            needs = work.walltime
        else:
            needs = min(
                max(LEAST + (work.grace if work.checkpoint else 0.0), needed), self.length or math.inf
            )
        return (now <= self.fresh and needs <= self.length) or self.end - now >= needs


def own_block(environ: Mapping[str, str]) -> BlockHere | None:
    """Return the block of this process; None outside a block, or if its end is unknown."""
    try:
        end = float(environ.get("DIEL_BLOCK_END", ""))
    except ValueError:
        return None
    walltime = float(environ.get("DIEL_BLOCK_WALLTIME") or 0.0)
    fresh = end - walltime + start_slack(walltime) + MARGIN if walltime else 0.0
    return BlockHere(environ.get("DIEL_BLOCK", ""), end - MARGIN, fresh, walltime)


def start_slack(walltime: float) -> float:
    """Return seconds that the start of a block may take: a task as long as the block goes to a fresh one."""
    return max(2.0, min(30.0, 0.05 * walltime))


def own_node(environ: Mapping[str, str]) -> str:
    """Return the name that this node's scheduler knows it by."""
    return environ.get("DIEL_NODE_NAME") or socket.gethostname().partition(".")[0]


def with_hosts(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a launcher's words with the task's nodes in place of {hosts}."""
    if not any("{hosts}" in word for word in words):
        return words
    hosts = os.environ.get("PARSL_MPI_NODELIST") or own_node(os.environ)  # whole nodes are Parsl's to give
    return tuple(word.replace("{hosts}", hosts) for word in words)


def pin_gpus(environ: MutableMapping[str, str]) -> None:
    """Keep the variables of DIEL_GPU_VARIABLES, with the devices of DIEL_BLOCK_GPUS: Parsl counts from 0."""
    listed = environ.get("DIEL_GPU_VARIABLES")
    if listed is None:
        return
    names = {name.strip() for name in listed.split(",")}
    visible = environ.get("DIEL_BLOCK_GPUS", "")
    for name in GPU_VARIABLES:
        if name not in names:
            environ.pop(name, None)
        elif environ.get(name) and visible and environ[name] != visible:
            environ[name] = ",".join(_device(index, visible.split(",")) for index in environ[name].split(","))


def _device(index: str, devices: list[str]) -> str:
    return devices[int(index)] if index.isdecimal() and int(index) < len(devices) else index


class Limits(NamedTuple):
    """All in seconds since the epoch; None if there is no such limit."""

    deadline: float | None = None
    """The earliest of all."""
    interrupt: float | None = None
    """When a task that keeps checkpoints is asked to save one and stop."""
    walltime: float | None = None
    block: float | None = None
    rehearsed: bool = False
    """Whether the warning is of the stage's own timeout, and not of a walltime or the block's end."""


NO_LIMITS = Limits()


def limits_of(work: Work, began: float, block: BlockHere | None) -> Limits:
    """Return the limits of an attempt. Without a block there is no limit by walltime."""
    if block is None and work.timeout is None:
        return NO_LIMITS
    timeout = None if work.timeout is None else began + work.timeout
    walltime = None if work.walltime is None or block is None else began + work.walltime
    end = None if block is None else block.end
    stops = [stop for stop in (walltime, end) if stop is not None]
    if timeout is not None and work.rehearses:
        stops.append(timeout)
    interrupt = None
    if work.checkpoint and stops:
        remaining = max(0.0, min(stops) - began)
        # If the grace would take all the time, half of it goes to work.
        interrupt = min(stops) - (work.grace if work.grace < remaining else remaining / 2)
    deadline = min((stop for stop in (timeout, *stops) if stop is not None), default=None)
    rehearsed = interrupt is not None and min(stops) not in (walltime, end)
    return Limits(deadline, interrupt, walltime, end, rehearsed)
