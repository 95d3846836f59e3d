"""The job of a block: what the scheduler is asked for, and what each of its nodes runs. Pure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from diel.attempt.block import MARGIN, start_slack
from diel.errors import UsageError
from diel.paths import RunPaths
from diel.scheduler import Job, Scheduler
from diel.site import Pool, Shape, Site, cores_of

CARRIED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables of the controller that its workers get: the programs and libraries that it found."""


def drain_after(shape: Shape, walltime: float, grace: float) -> float:
    """Age of a block, in seconds, from which on it could not finish a task of this shape."""
    wanted = shape.walltime or grace
    return max(start_slack(walltime), walltime - wanted - MARGIN)


def block_job(
    site: Site,
    shape: Shape,
    scheduler: Scheduler,
    name: str,
    folder: Path,
    stem: str,
    walltime: float,
    exclude: Iterable[str] = (),
) -> Job:
    """The job that holds a block; its nodes run `STEM.node.sh` in `folder`.

    Raises UsageError where nothing says how to start that on each of several nodes.
    """
    pool: Pool = site.pools[shape.pool]
    nodes = shape.block_nodes(pool)
    node = ("/bin/sh", str(folder / f"{stem}.node.sh"))
    spread = site.spread or scheduler.spread
    if nodes > 1 and not spread and not shape.nodes:
        raise UsageError(
            f"site '{site.name}' has blocks of {nodes} nodes in pool '{shape.pool}', and its scheduler "
            "does not say how a program is started on each of them: write `spread: [WORDS, …]` in its file"
        )
    words = node if shape.nodes else (*_filled(spread, nodes), *node)
    return Job(
        name=name,
        command=" ".join(word if word.startswith("$") else shlex.quote(word) for word in words),
        folder=folder,
        stdout=folder / f"{stem}.out",
        stderr=folder / f"{stem}.err",
        nodes=nodes,
        cores=cores_of(pool),
        walltime=walltime,
        gpus=pool.gpus if shape.gpus else 0,
        memory=pool.memory or 0,
        queue=pool.queue,
        account=pool.account or site.account,
        options=(*site.options, *pool.options),
        setup=(f"date +%s > {shlex.quote(str(folder / stem))}.began", *site.setup, *pool.setup),
        exclude=tuple(exclude),
    )


def _filled(words: Sequence[str], nodes: int) -> tuple[str, ...]:
    return tuple(word.replace("{nodes}", str(nodes)) for word in words)


def node_script(
    site: Site,
    shape: Shape,
    scheduler: Scheduler,
    run_dir: Path,
    block: str,
    epoch: int,
    walltime: float,
    command: str,
    env: Mapping[str, str],
) -> str:
    """What one node of a block runs for the controller of an epoch: Parsl's worker pool, under a keeper that
    clears the node.
    """
    pool = site.pools[shape.pool]
    whole = shape.nodes and scheduler.hosts
    hosts = shlex.quote(str(RunPaths(run_dir).blocks / f"{block}.hosts"))
    began = RunPaths(run_dir).block_begin(block)
    set_ = {
        **{name: env[name] for name in CARRIED if env.get(name)},
        "DIEL_RUN_DIR": str(run_dir),
        "DIEL_BLOCK": block,
        "DIEL_CONTROLLER_EPOCH": str(epoch),
        "DIEL_BLOCK_WALLTIME": f"{walltime:.0f}",
        "DIEL_GRACE": f"{site.grace:g}",
        "DIEL_GPU_VARIABLES": ",".join(pool.gpu_variables),
        "DIEL_OOM_WORDS": scheduler.oom,
        "OMP_NUM_THREADS": str(shape.cores),  # some schedulers set it to the cores of the whole node
    }
    return "\n".join(
        [
            "#!/bin/sh",
            *(f"export {name}={shlex.quote(value)}" for name, value in set_.items()),
            *((f'export DIEL_NODE_NAME="$({scheduler.node})"',) if scheduler.node else ()),
            *(
                (f"printf '%s\\n' $({scheduler.hosts}) > {hosts}", f"export DIEL_NODE_FILE={hosts}")
                if whole
                else ()
            ),
            # The job's begin, and not this node's: what stands before may take long.
            f"began=$(cat {shlex.quote(str(began))} 2>/dev/null || date +%s)",
            "export DIEL_BLOCK_END=$(( began + DIEL_BLOCK_WALLTIME ))",
            *site.setup,  # again: what the job's script sets does not reach all nodes everywhere
            *pool.setup,
            f"cd {shlex.quote(str(run_dir))} || exit 1",
            f"exec {shlex.quote(sys.executable)} -m diel.executors.node {command}",
            "",
        ]
    )
