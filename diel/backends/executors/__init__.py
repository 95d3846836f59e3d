"""What runs bundles in blocks: Parsl; what it must know about its workers, and what it reports of blocks."""

from typing import NamedTuple


class Workers(NamedTuple):
    """What Parsl must know about the workers of a shape. Times are whole seconds."""

    slots: int
    """Workers of a node; if tasks span whole nodes, tasks side by side in a block."""
    mpi_nodes: int
    """Whole nodes of one task; 0 if tasks share a node."""
    gpus: tuple[str, ...]
    """The GPUs of each worker of a node: `("0,1", "2,3")`."""
    drain: int
    """The age at which a block gets no more tasks, because it could not finish them."""
    silence: int
    """A node counts as lost after this long without a heartbeat."""
    orphan: int
    """How long a node continues without hearing from the controller."""

    @property
    def beat(self) -> int:
        """Time between two heartbeats; also how soon Parsl starts a worker in place of a dead one."""
        return max(1, self.silence // 8)


class Load(NamedTuple):
    """The load of one block."""

    nodes: int
    bundles: int
    idle: float
