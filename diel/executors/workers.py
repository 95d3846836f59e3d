"""What Parsl must know about the workers of a resource shape, and what it reports of blocks."""

from __future__ import annotations

from typing import NamedTuple


class Workers(NamedTuple):
    """What Parsl must know about the workers of a shape. Times are whole seconds."""

    slots: int
    """Workers of a node; where tasks span whole nodes, tasks side by side in a block."""
    mpi_nodes: int
    """Whole nodes of one task; 0 where tasks share a node."""
    gpus: tuple[str, ...]
    """The GPUs of each worker of a node: `("0,1", "2,3")`."""
    drain: int
    """Age of a block from which on it gets no more tasks, for it could not finish them."""
    silence: int
    """A node counts as lost after this long without a heartbeat."""
    orphan: int
    """How long a node goes on without a word from the controller."""

    @property
    def beat(self) -> int:
        """Time between two heartbeats; also how soon Parsl starts a worker in place of a dead one."""
        return max(1, self.silence // 8)


class Load(NamedTuple):
    """What one block has to do."""

    nodes: int
    """Nodes that are connected."""
    bundles: int
    idle: float
    """Seconds for which none of its nodes had anything to do."""
