"""A pool: a kind of node that a site offers, and how diel asks for allocations of it."""

from __future__ import annotations

import os

from pydantic import Field, model_validator

from diel.errors import counted
from diel.site.words import JobOption, JobWord, SetupLine
from diel.spec import Resources
from diel.spec.model import Duration, Flaw, Flaws, Items, Limit, Model, Size
from diel.values import format_duration, format_size

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES",)


class Pool(Model):
    """A kind of node, and the blocks (allocations) of it that diel may hold."""

    description: str = ""
    queue: JobWord | None = Field(
        default=None, description="Queue, or partition; the scheduler's default where absent."
    )
    account: JobWord | None = Field(default=None, description="Account to charge; the site's where absent.")
    nodes: int = Field(default=1, ge=1, description="How many nodes a block, and so a task, may span.")
    block_nodes: int = Field(default=1, ge=1, description="Nodes of a block that no task makes larger.")
    blocks: int = Field(default=1, ge=1, description="How many blocks diel may hold at the same time.")
    cores: int | None = Field(
        default=None, ge=1, description="Cores of a node; this machine's where absent, without a scheduler."
    )
    memory: Size | None = Field(
        default=None, description="Memory of a node; this machine's where absent, without a scheduler."
    )
    gpus: int = Field(default=0, ge=0, description="GPUs of a node.")
    gpu_variables: Items[str] = Field(
        default=GPU_VARIABLES,
        description="Variables that pin a task to its GPUs: CUDA_VISIBLE_DEVICES, "
        "ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK.",
    )
    walltime: Limit = Field(default=3600.0, description="Walltime of a block that no task makes longer.")
    max_walltime: Limit | None = Field(
        default=None, description="Longest walltime that the queue allows; `walltime` where absent."
    )
    idle: Duration = Field(
        default=30.0, ge=0, description="How long a block may idle before it is given back."
    )
    options: Items[JobOption] = Field(
        default=(),
        description="Further options of the scheduler, one each: `--constraint=gpu`, `-l place=scatter`.",
    )
    setup: Items[SetupLine] = Field(
        default=(), description="Shell lines at the start of each block: `module load ...`."
    )

    @property
    def longest(self) -> float:
        """Seconds that a block may last at most."""
        return max(self.walltime, self.max_walltime or 0.0)

    @model_validator(mode="after")
    def _consistent(self) -> Pool:
        flaws = []
        if self.block_nodes > self.nodes:
            message = f"{self.block_nodes} block_nodes, but a block has at most {counted(self.nodes, 'node')}"
            flaws.append(Flaw(message, "raise `nodes`, or lower `block_nodes`", ("block_nodes",)))
        if self.max_walltime is not None and self.max_walltime < self.walltime:
            longest, usual = format_duration(self.max_walltime), format_duration(self.walltime)
            message = f"max_walltime {longest} is shorter than walltime {usual}"
            flaws.append(Flaw(message, "drop one of the two", ("max_walltime",)))
        if flaws:
            raise Flaws(*flaws)
        return self


def cores_of(pool: Pool) -> int:
    """Cores of one node of a pool."""
    if pool.cores is not None:
        return pool.cores
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_of(pool: Pool) -> int:
    """Bytes of memory of one node of a pool."""
    return pool.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def lacks(pool: Pool, wanted: Resources, *, scheduled: bool = False) -> list[str]:
    """What a task with these resources asks for and a pool does not have; nothing where the task fits.

    Each as `asks for 5 nodes, and it has 4`.

    `scheduled` says whether a scheduler bounds how long a block may last.
    """
    nodes = nodes_of(wanted)
    missing = []
    if nodes > pool.nodes:
        missing.append(f"asks for {counted(nodes, 'node')}, and it has {pool.nodes}")
    cores = -(-wanted.cores // nodes)
    if cores > cores_of(pool):
        missing.append(f"asks for {counted(cores, 'core')} a node, and it has {cores_of(pool)}")
    gpus = -(-wanted.gpus // nodes)
    if gpus > pool.gpus:
        missing.append(f"asks for {counted(gpus, 'GPU')} a node, and it has {pool.gpus}")
    if wanted.memory is not None and wanted.memory > memory_of(pool):
        missing.append(
            f"asks for {format_size(wanted.memory)} of memory, and it has {format_size(memory_of(pool))}"
        )
    if scheduled and wanted.walltime is not None and wanted.walltime > pool.longest:
        longest = format_duration(pool.longest)
        missing.append(f"asks for {format_duration(wanted.walltime)} of walltime, and it has {longest}")
    return missing


def nodes_of(wanted: Resources) -> int:
    """Nodes that a task spans: as it says, or as few as its ranks_per_node allow."""
    return wanted.nodes or -(-wanted.processes // (wanted.ranks_per_node or wanted.processes))


def nodes_that_fit(pool: Pool, wanted: Resources, *, scheduled: bool = False) -> int | None:
    """Nodes over which the ranks of a task that names none would fit; None where no number of them does."""
    if wanted.ranks is None or wanted.nodes is not None or wanted.ranks_per_node is not None:
        return None
    each = cores_of(pool) // wanted.cores_per_rank
    if wanted.gpus_per_rank:
        each = min(each, pool.gpus // wanted.gpus_per_rank)
    if each < 1:
        return None
    nodes = -(-wanted.ranks // each)
    spread = wanted.model_copy(update={"nodes": nodes})
    return nodes if nodes > 1 and not lacks(pool, spread, scheduled=scheduled) else None
