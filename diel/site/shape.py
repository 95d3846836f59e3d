"""What tasks need of a pool: their shape. Tasks that share workers have the same shape."""

import math
import os
import re
from typing import Any, NamedTuple

from diel.base.errors import HintedError, counted
from diel.base.values import format_duration, format_size
from diel.site.site import Pool, Site
from diel.workflow.models import Resources, Stage
from diel.workflow.models.stage import Place

_MINUTES = (1, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1080, 1440)
_STEPS = (0.0, *(60.0 * minutes for minutes in _MINUTES))
"""Walltimes that tasks with demands of their own share, in seconds; longer ones are rarely many."""


class Shape(NamedTuple):
    """What one task needs of a pool. Tasks of one shape run on the same workers, one executor each."""

    pool: str
    nodes: int
    """Whole nodes that a task spans under MPI; 0 if tasks share a node."""
    cores: int
    """Cores of one task, on its node; 1 if it has whole nodes."""
    gpus: int = 0
    """GPUs of one task, on each of its nodes."""
    memory: int = 0
    """Bytes of one task on each of its nodes; 0 if it does not say."""
    walltime: float = 0.0
    """Whole seconds that a task may run; 0 if it does not say."""

    @property
    def label(self) -> str:
        """A name for files and messages: `cpu-2c`, `gpu-8c-1g-10m00s`, `cpu-2n`. Other shapes have others."""
        places = f"{self.nodes}n" if self.nodes else f"{self.cores}c"
        gpus, memory = f"{self.gpus}g" if self.gpus else "", _size(self.memory) if self.memory else ""
        walltime = _clock(math.ceil(self.walltime)) if self.walltime else ""
        return "-".join(filter(None, (self.pool, places, gpus, memory, walltime)))

    def workers(self, pool: Pool) -> int:
        """Tasks that run side by side on one node, or in one block if each spans whole nodes."""
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
        """Return seconds of a block: the pool's, or more if a task needs it and the queue allows it."""
        return min(max(pool.walltime, self.walltime + grace), pool.longest)


def shared_shape(shape: Shape, pool: Pool) -> Shape:
    """Return the shape of a task's blocks where each task has its own demands: as few as do. Memory counts
    as far as it says how many tasks a node holds; a walltime is rounded up to a usual one."""
    workers = shape.workers(pool)
    plenty = shape.nodes or shape._replace(memory=0).workers(pool) == workers
    walltime = next((step for step in _STEPS if step >= shape.walltime), shape.walltime)
    return shape._replace(
        memory=0 if plenty else memory_of(pool) // workers,
        walltime=max(shape.walltime, min(walltime, pool.longest)),
    )


class Ask(NamedTuple):
    """What one task asks for."""

    spec: Stage
    """Its stage, with this task's resources, timeout and retries."""
    shape: Shape
    cores: int
    """On all its nodes; 0 if it shares those of others."""
    launcher: tuple[str, ...] = ()
    """The words that start its ranks."""

    @property
    def seconds(self) -> float | None:
        """The longest that it may run: its walltime, or its timeout."""
        return self.spec.resources.walltime or self.spec.timeout

    @property
    def own(self) -> dict[str, Any]:
        """What expressions gave, by key: `ranks`, `memory` in bytes, `timeout` in seconds, `retries`."""
        values: dict[str, Any] = {}
        for key in self.spec.demand:
            part: Any = self.spec
            for name in key:
                part = getattr(part, str(name))
            values[str(key[-1])] = part.limit if key == ("retries",) else part
        return values


class Unplaceable(HintedError):
    """A demand that is wrong, or fits no pool; `place` is `file:line:column` of the expression."""

    rest: "tuple[Unplaceable, ...]" = ()
    """What else is wrong with the same stage."""

    def __init__(
        self,
        message: str,
        hint: str,
        key: Place,
        offset: int | None = None,
        *,
        place: str = "",
        unfit: bool = False,
    ) -> None:
        """`unfit`: no pool has as much."""
        super().__init__(message, hint)
        self.key, self.offset, self.place, self.unfit = key, offset, place, unfit

    def __str__(self) -> str:
        return f"{self.place}: {super().__str__()}" if self.place else super().__str__()


def shape_of(pool: str, resources: Resources) -> Shape:
    """Return a task's shape. One that asks for `nodes`, or spans some, gets whole nodes. Tasks that need the
    same of a block have the same shape: with whole nodes, their cores do not count."""
    nodes = nodes_of(resources)
    whole = nodes if resources.mpi and (nodes > 1 or resources.nodes is not None) else 0
    return Shape(
        pool,
        whole,
        1 if whole else -(-resources.cores // nodes),
        -(-resources.gpus // nodes),
        resources.memory or 0,
        float(math.ceil(resources.walltime or 0.0)),
    )


def _size(size: int) -> str:
    """Return a size to the last byte, not rounded: a quarter of a node's 240GB must fit four times."""
    if size % 2**20 == 0:
        return f"{size // 2**20}MiB"
    return f"{size // 10**6}MB" if size % 10**6 == 0 else f"{size}B"


def _clock(seconds: int) -> str:
    """Return a time to the last second: `36s`, `10m00s`, `1h30m`, `1h30m05s`."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m" + (f"{rest:02d}s" if rest else "")
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def cores_of(pool: Pool) -> int:
    """Cores of one node of a pool."""
    if pool.cores is not None:
        return pool.cores
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_of(pool: Pool) -> int:
    """Return bytes of memory of one node of a pool."""
    return pool.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def lacks(pool: Pool, resources: Resources, *, scheduled: bool = False) -> list[str]:
    """List what a task asks for but a pool lacks, time if `scheduled`: `asks for 5 nodes, and it has 4`."""
    nodes = nodes_of(resources)
    cores, gpus = -(-resources.cores // nodes), -(-resources.gpus // nodes)
    memory, walltime = resources.memory or 0, (resources.walltime or 0.0) if scheduled else 0.0
    missing = []
    if nodes > pool.nodes:
        missing.append((counted(nodes, "node"), str(pool.nodes)))
    if cores > cores_of(pool):
        missing.append((f"{counted(cores, 'core')} a node", str(cores_of(pool))))
    if gpus > pool.gpus:
        missing.append((f"{counted(gpus, 'GPU')} a node", str(pool.gpus)))
    if memory > memory_of(pool):
        missing.append((f"{format_size(memory)} of memory", format_size(memory_of(pool))))
    if walltime > pool.longest:
        missing.append((f"{format_duration(walltime)} of walltime", format_duration(pool.longest)))
    return [f"asks for {request}, and it has {has}" for request, has in missing]


def nodes_of(resources: Resources) -> int:
    """Nodes that a task spans: as given, or as few as its ranks_per_node allow."""
    return resources.nodes or -(-resources.processes // (resources.ranks_per_node or resources.processes))


def nodes_that_fit(pool: Pool, resources: Resources, *, scheduled: bool = False) -> int | None:
    """Nodes over which the ranks of a task that names none would fit; None if no number of them does."""
    if resources.ranks is None or resources.nodes is not None or resources.ranks_per_node is not None:
        return None
    ranks = cores_of(pool) // resources.cores_per_rank
    if resources.gpus_per_rank:
        ranks = min(ranks, pool.gpus // resources.gpus_per_rank)
    if ranks < 1:
        return None
    nodes = -(-resources.ranks // ranks)
    spread = resources.model_copy(update={"nodes": nodes})
    return nodes if nodes > 1 and not lacks(pool, spread, scheduled=scheduled) else None


def ask_of(site: Site, stage: Stage) -> Ask:
    """Return a task's demand in the first pool that it fits, without a launcher. Raise Misfit."""
    resources = stage.resources
    shares = stage.service is not None and stage.service.shared_cores and not site.scheduled
    pool = _pool_of(site, resources)
    shape = shape_of(pool, resources)
    if stage.demand:
        shape = shared_shape(shape, site.pools[pool])
    return Ask(stage, shape, 0 if shares else resources.cores)


def _pool_of(site: Site, resources: Resources) -> str:
    """Return the pool that a task names, or the first that it fits into. Raise Misfit."""
    pools = site.pools
    if resources.pool is not None:
        if resources.pool not in pools:
            message = f"site '{site.name}' has no pool '{resources.pool}'"
            raise Unplaceable(message, f"pools: {', '.join(pools)}", ("resources", "pool"))
        pools = {resources.pool: pools[resources.pool]}
    missing = {label: lacks(pool, resources, scheduled=site.scheduled) for label, pool in pools.items()}
    fitting = [label for label, lacking in missing.items() if not lacking]
    if fitting:
        return fitting[0]
    reasons = "; ".join(f"pool '{label}': {', '.join(lacking)}" for label, lacking in missing.items())
    spread = [nodes_that_fit(pool, resources, scheduled=site.scheduled) for pool in pools.values()]
    over = next((f"write `nodes: {nodes}`, " for nodes in spread if nodes is not None), "")
    hint = f"{reasons}; {over}ask for less, or choose another site with --site"
    raise Unplaceable(f"fits no pool of site '{site.name}'", hint, ("resources",))


def within(site: Site, nodes: int) -> Site:
    """Return the site inside one allocation of so many nodes: each can be a block of its own."""
    pools = {
        name: pool.model_copy(update={"nodes": nodes, "block_nodes": 1, "blocks": nodes})
        for name, pool in site.pools.items()
    }
    return site.model_copy(update={"pools": pools, "spread": ()})


def rooms(site: Site) -> dict[str, int]:
    """Cores available at the same time, by pool; this machine is one pool, without a name."""
    if site.scheduled:
        return {name: pool.blocks * pool.block_nodes * cores_of(pool) for name, pool in site.pools.items()}
    return {"": sum(pool.nodes * cores_of(pool) for pool in site.pools.values())}


def chosen_launcher(site: Site, pool: str, resources: Resources) -> tuple[str, ...] | str:
    """Return the launcher of a task: its name, or its words where the site file gives it none."""
    return resources.launcher or site.pools[pool].launcher or site.launcher


def launcher_words(site: Site, pool: str, resources: Resources) -> tuple[str, ...]:
    """Return the words that start a task's ranks, with {hosts} for the worker; empty for an unknown name."""
    chosen = chosen_launcher(site, pool, resources)
    words = site.launchers.get(chosen, ()) if isinstance(chosen, str) else chosen
    nodes = nodes_of(resources)
    places = {
        "{ranks}": str(resources.processes),
        "{nodes}": str(nodes),
        "{ranks_per_node}": str(resources.ranks_per_node or -(-resources.processes // nodes)),
        "{cores_per_rank}": str(resources.cores_per_rank),
    }
    put_in = re.compile(rf"(?<!\$)({'|'.join(map(re.escape, places))})")  # the shell's `${{NAME}}` stays
    return tuple(put_in.sub(lambda place: places[place[1]], word) for word in words)
