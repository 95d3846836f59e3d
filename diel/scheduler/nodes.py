"""What a scheduler tells of itself: its dialect, its queues and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Dialect:
    """What answers to a scheduler's commands."""

    version: str
    """Its own words, or what was found out about it."""
    wrapper: bool = False
    """Whether these are another scheduler's commands in this one's style, as Slurm's own qsub is."""


@dataclass(frozen=True)
class Queue:
    """A queue, with the longest walltime that it allows."""

    name: str
    limit: float | None = None
    """Seconds; None where there is none, or the scheduler does not say."""
    default: bool = False
    """Whether jobs that name no queue go there."""


@dataclass(frozen=True)
class NodeKind:
    """Nodes of one shape, as the scheduler gives them."""

    queue: str
    """Empty where the scheduler does not say which queue has them."""
    nodes: int
    cores: int
    threads: int
    """Hardware threads; what some schedulers count as CPUs."""
    memory: int
    """Bytes; 0 where it does not say."""
    gpus: int
    physical: int = 0
    """Cores that the host really has; 0 where the scheduler does not say."""
    sharing: int = 1
    """How many such nodes (vnodes) there are on one host: its cores are not their sum."""


@dataclass(frozen=True)
class Offer:
    """What jobs can have."""

    queues: Sequence[Queue]
    nodes: Sequence[NodeKind] = ()
    """Empty where the scheduler does not tell."""


def gathered(kinds: Iterable[NodeKind]) -> list[NodeKind]:
    """Nodes of the same shape counted together."""
    counts: Counter[NodeKind] = Counter()
    for kind in kinds:
        counts[replace(kind, nodes=0)] += kind.nodes
    return [replace(shape, nodes=count) for shape, count in counts.items()]
