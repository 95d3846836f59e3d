"""A site: a machine or cluster as its site file describes it."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from diel.site.pool import Pool, cores_of, nodes_of
from diel.site.words import LOCAL, JobOption, JobWord, LauncherWord, SchedulerName, SetupLine, SpreadWord
from diel.spec import Resources
from diel.spec.model import Duration, Flaw, Flaws, Items, Limit, Model, Name, Size, Text


class ControllerHome(Model):
    """Where the controller of a submitted run lives, and what it asks for there."""

    home: Literal["login", "job", "inside"] = Field(
        default="login",
        description="`login`: a process of its own, where `diel submit` is typed; `job`: a small job; "
        "`inside`: one allocation holds the controller and all its workers.",
    )
    queue: JobWord | None = Field(
        default=None, description="Queue of the controller's job; the pool's where absent."
    )
    walltime: Limit | None = Field(
        default=None,
        description="Walltime of its job, a day where absent; it queues its successor before that ends. "
        "Of the allocation for `inside`, as long as its longest task needs where absent.",
    )
    cores: int = Field(default=1, ge=1, description="Cores of its job.")
    memory: Size | None = Field(default=None, description="Memory of its job.")
    options: Items[JobOption] = Field(default=(), description="Further options of the scheduler for its job.")


class FileSystem(Model):
    """A file system of the site: what a run's directory may expect of it."""

    path: Text = Field(min_length=1, description="Where it is; may name variables, as $SCRATCH.")
    description: str = ""
    quota: Size | None = Field(default=None, description="Bytes that a user may keep.")
    files: int | None = Field(default=None, ge=1, description="Files that a user may keep.")
    purge: Duration | None = Field(
        default=None, description="Files that nobody reads for so long are deleted."
    )
    compute: Literal["write", "read", "none"] = Field(
        default="write", description="What compute nodes may do there; runs need `write`."
    )


class LocalDisk(Model):
    """The nodes' own disks: where diel may keep what several tasks of a node read."""

    dir: Text | None = Field(
        default=None,
        min_length=1,
        description="Directory on each node; may name variables, as $TMPDIR, which each node fills in.",
    )
    size: Size | None = Field(
        default=None, description="Bytes that diel may keep there; all that is free where absent."
    )


class Site(Model):
    """A machine or cluster, as its site file describes it."""

    name: Name
    description: str = ""
    extends: Name | None = Field(default=None, description="A site whose keys hold where this file has none.")
    scheduler: SchedulerName = Field(description="What starts allocations.")
    account: JobWord | None = Field(default=None, description="Account to charge; DIEL_ACCOUNT beats it.")
    account_required: bool = Field(
        default=False, description="Whether the scheduler refuses jobs without one."
    )
    pools: dict[Name, Pool] = Field(min_length=1, description="Kinds of node, by name.")
    launcher: Items[LauncherWord] = Field(
        default=("mpiexec", "-n", "{ranks}"),
        description="Words of the MPI launcher; {ranks}, {nodes}, {ranks_per_node}, {cores_per_rank} and "
        "{hosts} (the task's nodes, with commas between) are put in.",
    )
    spread: Items[SpreadWord] = Field(
        default=(),
        description="Words that start a program once on each node of a block, where the scheduler's own "
        "are not right; {nodes} is put in.",
    )
    setup: Items[SetupLine] = Field(default=(), description="Shell lines at the start of every job.")
    options: Items[JobOption] = Field(
        default=(), description="Further options of the scheduler for every job."
    )
    address: Text | None = Field(
        default=None,
        description="Address or network interface by which nodes reach the controller; all where absent.",
    )
    poll: Limit = Field(default=5.0, description="Time between two questions to the scheduler.")
    silence: Limit = Field(
        default=15.0, description="After so long without a word from it, a node counts as lost."
    )
    startup: Limit = Field(
        default=300.0,
        description="How long the first worker of this machine may take to start; `status` says so "
        "meanwhile.",
    )
    grace: Duration = Field(
        default=60.0, ge=0, description="How long before a block's end its tasks are told so."
    )
    controller: ControllerHome = ControllerHome.model_construct()
    local: LocalDisk = LocalDisk.model_construct()
    filesystems: dict[Name, FileSystem] = Field(default_factory=dict, description="File systems, by name.")

    @property
    def scheduled(self) -> bool:
        """Whether a scheduler starts allocations; if not, this machine is all there is."""
        return self.scheduler != LOCAL

    @model_validator(mode="after")
    def _consistent(self) -> Site:
        flaws = []
        if self.scheduled:
            flaws = [
                Flaw(
                    f"pool '{name}' does not say how many cores a node has",
                    "write cores: 64",
                    ("pools", name),
                )
                for name, pool in self.pools.items()
                if pool.cores is None
            ]
        if not self.launcher or not self.launcher[0]:
            flaws.append(Flaw("an empty launcher", "write launcher: [mpiexec, -n, '{ranks}']", ("launcher",)))
        if flaws:
            raise Flaws(*flaws)
        return self


def missing(site: Site) -> list[str]:
    """What a user must still give before anything can be submitted to a site: each with how to give it."""
    if not site.account_required or site.account is not None:
        return []
    without = [name for name, pool in site.pools.items() if pool.account is None]
    if not without:
        return []
    charged = "its jobs are charged" if len(without) == len(site.pools) else f"pools {', '.join(without)}"
    return [
        f"site '{site.name}' needs an account ({charged}): set DIEL_ACCOUNT=NAME, or write a file of your "
        f"own, schedulers/mine.yaml, with `extends: {site.name}` and `account: NAME`, and use --site mine"
    ]


def launcher_words(site: Site, wanted: Resources) -> tuple[str, ...]:
    """The words that start a task's ranks; empty for a task without `ranks`.

    {hosts} stays: only the worker knows the nodes that the task was given.
    """
    if not wanted.mpi:
        return ()
    nodes = nodes_of(wanted)
    places = {
        "{ranks}": str(wanted.processes),
        "{nodes}": str(nodes),
        "{ranks_per_node}": str(wanted.ranks_per_node or -(-wanted.processes // nodes)),
        "{cores_per_rank}": str(wanted.cores_per_rank),
    }
    return tuple(_filled(word, places) for word in site.launcher)


def _filled(word: str, places: dict[str, str]) -> str:
    """A word with values in their places, and with the shell's `${NAME}` as it is."""
    for place, value in places.items():
        word = re.sub(rf"(?<!\$){re.escape(place)}", value, word)
    return word


def within(site: Site, nodes: int) -> Site:
    """The site as it is inside one allocation of so many nodes: each of them may be a block of its own."""
    pools = {
        name: pool.model_copy(update={"nodes": nodes, "block_nodes": 1, "blocks": nodes})
        for name, pool in site.pools.items()
    }
    return site.model_copy(update={"pools": pools, "spread": ()})


def rooms(site: Site) -> dict[str, int]:
    """Cores that can be had at the same time, by pool; this machine's are one pool, of no name."""
    if site.scheduled:
        return {name: pool.blocks * pool.block_nodes * cores_of(pool) for name, pool in site.pools.items()}
    return {"": sum(pool.nodes * cores_of(pool) for pool in site.pools.values())}
