"""When another block is worth asking for, and when one is of no more use. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from diel.blocks.block import Block
from diel.site import Shape

WAITED = 5.0
"""Seconds that a bundle waits for a worker before another block is worth asking for."""
WORTH = 60.0
"""Seconds of work for all workers of a shape that make another block worth asking for."""


def wants_block(
    shape: Shape, out: Sequence[float], usable: Sequence[Block], *, more: bool, backlog: float, now: float
) -> bool:
    """Whether another block would be of use for tasks of a shape that are ready now.

    `out` holds when each bundle was handed out, ascending, and `usable` the blocks that these go to;
    `more` says whether further tasks are ready and found no room; `backlog` is the work in line, in
    seconds. Times are monotonic seconds.
    """
    if not out or not usable:
        return bool(out)
    slots = sum(block.slots for block in usable)
    if len(out) <= slots and not more:
        return False
    if not all(block.connected for block in usable):
        return bool(shape.walltime) and more  # it is said how long they take: ask for all at once
    since = max(block.connected_since for block in usable)
    waiting = out[slots:]
    waited = bool(waiting) and now - max(since, waiting[0]) > WAITED
    return waited or (more and backlog / slots > WORTH)


def is_idle(block: Block, out: int, others: int, patience: float, now: float) -> bool:
    """Whether a block is of no more use: nothing in it, nothing for it, and that for so many seconds.

    `out` counts the bundles of its shape, `others` the workers of that shape's other blocks; `now` is
    in seconds since the epoch.
    """
    if out > others or (block.connected and block.bundles):
        return False
    if block.connected:
        return block.idle > patience
    return out == 0 and now - (block.kept or block.asked) > patience
