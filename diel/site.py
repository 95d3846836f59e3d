"""A site: where tasks run. Its pools are what a stage's resources must fit into."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from diel.errors import SpecError, UsageError, did_you_mean
from diel.load import fit, parse, read_text
from diel.paths import site_folders
from diel.spec import Resources
from diel.spec.model import Items, Model, Name, Size
from diel.values import format_size


class Pool(Model):
    """A kind of node that a site offers."""

    description: str = ""
    nodes: int = Field(1, ge=1, description="How many nodes a task may span.")
    cores: int | None = Field(None, ge=1, description="Cores of a node; this machine's where absent.")
    memory: Size | None = Field(None, description="Memory of a node; this machine's where absent.")
    gpus: int = Field(0, ge=0, description="GPUs of a node.")


class Site(Model):
    """A machine or cluster, as its site file describes it."""

    name: Name
    description: str = ""
    scheduler: Literal["local"] = Field(description="What starts allocations.")
    launcher: Items[str] = Field(
        ("mpiexec", "-n", "{ranks}"), description="Words of the MPI launcher; {ranks} is put in."
    )
    pools: dict[Name, Pool] = Field(min_length=1, description="Kinds of node, by name.")


def cores_of(pool: Pool) -> int:
    """Cores of one node of a pool."""
    if pool.cores is not None:
        return pool.cores
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_of(pool: Pool) -> int:
    """Bytes of memory of one node of a pool."""
    return pool.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def lacks(pool: Pool, wanted: Resources) -> list[str]:
    """What a pool lacks for a task with these resources; nothing where the task fits."""
    nodes = wanted.nodes or -(-wanted.processes // (wanted.ranks_per_node or wanted.processes))
    missing = []
    if nodes > pool.nodes:
        missing.append(f"{nodes} nodes (it has {pool.nodes})")
    cores = -(-wanted.cores // nodes)
    if cores > cores_of(pool):
        missing.append(f"{cores} cores a node (it has {cores_of(pool)})")
    gpus = -(-wanted.gpus // nodes)
    if gpus > pool.gpus:
        missing.append(f"{gpus} GPUs a node (it has {pool.gpus})")
    if wanted.memory is not None and wanted.memory > memory_of(pool):
        missing.append(f"{format_size(wanted.memory)} of memory (it has {format_size(memory_of(pool))})")
    return missing


def launcher_words(site: Site, wanted: Resources) -> tuple[str, ...]:
    """The words that start a task's ranks; empty for a task without `ranks`."""
    if not wanted.mpi:
        return ()
    return tuple(word.replace("{ranks}", str(wanted.processes)) for word in site.launcher)


def find_program(name: str) -> str | None:
    """A program beside this Python (as pip installs them), or on PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.access(beside, os.X_OK) else shutil.which(name)


def find_site(name: str | None, folder: Path) -> Site:
    """The site of this name: `--site`, else DIEL_SITE, else `local`.

    Looked for in the workflow's `schedulers/`, in the user's configuration, in what diel ships.
    Raises UsageError where there is none, SpecError where its file is wrong.
    """
    wanted = name or os.environ.get("DIEL_SITE") or "local"
    known = {path.stem: path for path in _site_files(folder)}
    path = Path(wanted) if wanted.endswith((".yaml", ".yml")) else known.get(wanted)
    if path is None:
        hint = did_you_mean(wanted, known) or f"sites: {', '.join(sorted(known))}"
        raise UsageError(f"no site '{wanted}'; {hint}")
    return read_site(path)


def _site_files(folder: Path) -> Iterator[Path]:
    for place in reversed(site_folders(folder)):  # the first folder wins, so it comes last
        yield from sorted(place.glob("*.yaml"))


def read_site(path: Path) -> Site:
    """Reads a site file. Raises SpecError with all that is wrong in it."""
    source, data, problems = parse(read_text(path), path)
    site, misfits = fit(source, data, Site) if source.root is not None else (None, [])
    if site is None or problems or misfits:
        raise SpecError([*problems, *misfits])
    return site
