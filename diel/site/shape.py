"""A resource shape: what tasks that can share workers have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diel.site.pool import Pool, cores_of, memory_of, nodes_of
from diel.spec import Resources


@dataclass(frozen=True, order=True)
class Shape:
    """What one task needs of a pool. Tasks of one shape run on the same workers, one executor each."""

    pool: str
    nodes: int
    """Whole nodes that a task spans under MPI; 0 where tasks share a node."""
    cores: int
    """Cores of one task, on its node; 1 where it has whole nodes."""
    gpus: int = 0
    """GPUs of one task, on each of its nodes."""
    memory: int = 0
    """Bytes of one task on each of its nodes; 0 where it does not say."""
    walltime: float = 0.0
    """Whole seconds that a task may run; 0 where it does not say."""

    @property
    def label(self) -> str:
        """A name for files and messages: `cpu-2c`, `gpu-8c-1g-10m00s`, `cpu-2n`. Other shapes have others."""
        parts = [self.pool, f"{self.nodes}n" if self.nodes else f"{self.cores}c"]
        if self.gpus:
            parts.append(f"{self.gpus}g")
        if self.memory:
            parts.append(_size(self.memory))
        if self.walltime:
            parts.append(_clock(self.walltime))
        return "-".join(parts)

    def workers(self, pool: Pool) -> int:
        """Tasks that run side by side on one node, or in one block where each spans whole nodes."""
        if self.nodes:
            return max(1, self.block_nodes(pool) // self.nodes)
        fits = [cores_of(pool) // self.cores]
        if self.gpus:
            fits.append(pool.gpus // self.gpus)
        if self.memory:
            fits.append(memory_of(pool) // self.memory)
        return max(1, min(fits))

    def block_nodes(self, pool: Pool) -> int:
        """Nodes of a block for tasks of this shape: whole multiples of what a task spans."""
        if not self.nodes:
            return pool.block_nodes
        up = -(-pool.block_nodes // self.nodes)  # queues have least sizes
        return self.nodes * (up if up * self.nodes <= pool.nodes else max(1, pool.block_nodes // self.nodes))

    def slots(self, pool: Pool) -> int:
        """Tasks that run side by side in one block."""
        return self.workers(pool) if self.nodes else self.workers(pool) * self.block_nodes(pool)

    def block_walltime(self, pool: Pool, grace: float) -> float:
        """Seconds of a block: the pool's, or more where a task needs it and the queue allows it."""
        return min(max(pool.walltime, self.walltime + grace), pool.longest)


def shape_of(pool: str, wanted: Resources) -> Shape:
    """The shape of a task. One that asks for `nodes`, or spans several, gets whole nodes.

    Tasks that need the same of a block have the same shape: with whole nodes, their cores do not count.
    """
    nodes = nodes_of(wanted)
    whole = nodes if wanted.mpi and (nodes > 1 or wanted.nodes is not None) else 0
    return Shape(
        pool,
        whole,
        1 if whole else -(-wanted.cores // nodes),
        -(-wanted.gpus // nodes),
        wanted.memory or 0,
        float(math.ceil(wanted.walltime or 0.0)),
    )


def _size(size: int) -> str:
    """Bytes to the last one. Not rounded, since a fourth of a node's 240GB is to fit four times."""
    if size % 2**20 == 0:
        return f"{size // 2**20}MiB"
    return f"{size // 10**6}MB" if size % 10**6 == 0 else f"{size}B"


def _clock(seconds: float) -> str:
    """Seconds to the last one: `36s`, `10m00s`, `1h30m`, `1h30m05s`."""
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    rest = f"{whole % 60:02d}s" if whole % 60 else ""
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m{rest}"
