"""How what a scheduler says of its queues and nodes differs from a site file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from diel.scheduler import NodeKind, Offer, Queue
from diel.site import Pool, cores_of
from diel.values import MAX_DURATION, format_duration, format_size


def differences(name: str, pool: Pool, offer: Offer, elsewhere: Sequence[str] = ()) -> Iterator[str]:
    """What a pool claims and no node of its queue has, as advice.

    `elsewhere` are options that send jobs to other queues than the pool names.
    """
    kinds = offer.nodes
    own = [kind for kind in kinds if kind.queue in ("", pool.queue)] if pool.queue else kinds
    if own:
        nearest = max(own, key=lambda kind: _likeness(pool, kind))
        yield from (f"{name}: {told}" for told in _differences(pool, nearest))
    queue = _queue_of(pool, offer.queues, elsewhere)
    if queue is not None and queue.limit is not None and pool.longest > min(queue.limit, MAX_DURATION):
        longest, limit = format_duration(pool.longest), format_duration(queue.limit)
        which = "queue" if pool.queue else "the default queue"
        yield f"{name}: blocks of up to {longest}, but {which} '{queue.name}' allows {limit}"


def _queue_of(pool: Pool, queues: Sequence[Queue], elsewhere: Sequence[str]) -> Queue | None:
    """The queue that a pool names, or the scheduler's default one; None where that is not known."""
    if any(re.split(r"[ =]", option)[0] in elsewhere for option in pool.options):
        return None
    if pool.queue is None:
        return next((queue for queue in queues if queue.default), None)
    return next((queue for queue in queues if queue.name == pool.queue), None)


def _likeness(pool: Pool, kind: NodeKind) -> tuple[bool, bool, int, int]:
    """How well nodes fit a pool: its GPUs first, then its cores, then by how little is left over."""
    cores = cores_of(pool)
    return (
        kind.gpus >= pool.gpus and bool(kind.gpus) == bool(pool.gpus),
        kind.cores >= cores or kind.threads >= cores,
        -abs(kind.cores - cores),
        kind.nodes,
    )


def _differences(pool: Pool, kind: NodeKind) -> Iterator[str]:
    cores = cores_of(pool)
    threads = f" ({kind.threads} hardware threads)" if kind.threads != kind.cores else ""
    if cores != kind.cores:
        yield f"cores: {cores}, a node has {kind.cores}{threads}"
    if 0 < kind.physical < cores:
        shared = f", and {kind.sharing} nodes of the scheduler share one" if kind.sharing > 1 else ""
        yield f"cores: {cores}, but the host has {kind.physical}{shared}"
    if pool.memory is not None and kind.memory and pool.memory > kind.memory:
        yield f"memory: {format_size(pool.memory)}, jobs get {format_size(kind.memory)} of a node"
    if pool.gpus != kind.gpus:
        yield f"gpus: {pool.gpus}, the scheduler knows {kind.gpus} of a node"
