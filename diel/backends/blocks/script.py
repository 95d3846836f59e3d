"""The job script of a block, what its nodes run, and whether the scheduler takes it: tried before a run."""

import contextlib
import os
import shlex
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from diel.backends.blocks.block import Block
from diel.base.carried import FIXED, PYTHON, carried, dropping_lines
from diel.base.errors import UsageError
from diel.base.paths import RunPaths
from diel.planning.plan import Plan
from diel.site.scheduler import Job, JobState, Scheduler, SchedulerBusy, SchedulerRefused, scheduler_named
from diel.site.shape import Shape, cores_of
from diel.site.site import Site
from diel.store.journal.history import History
from diel.store.project.submission import job_prefix

REFUSED = "the scheduler does not take"
"""Begins the message that a run cannot have blocks."""
ATTENDED = 60.0
"""Seconds after a run's start in which its user is still there to fix the site file."""
ANSWER = 5.0
"""Seconds that a scheduler has to say why a new job waits."""
PAUSE = 0.25


class NeverRuns(SchedulerRefused):
    """The scheduler refuses the first block of a run, or says that it can never run."""

    exit_code = 2


def exports(**more: str) -> list[str]:
    """Shell lines that set the variables that are taken along to other machines, and more."""
    return [f"export {n}={shlex.quote(value)}" for n, value in {**carried(os.environ), **more}.items()]


def block_job_name(paths: RunPaths, block: Block) -> str:
    return f"{job_prefix(paths)}-{block.name}"


def block_job(site: Site, scheduler: Scheduler, paths: RunPaths, block: Block) -> Job:
    """Return the job of a block. Raise UsageError if nothing says how to start on several nodes."""
    shape, folder, stem = block.shape, paths.blocks, block.name
    pool = site.pools[shape.pool]
    nodes = shape.block_nodes(pool)
    node = ("/bin/sh", str(paths.node_script(stem)))
    spread = site.spread or scheduler.spread
    if nodes > 1 and not spread and not shape.nodes:
        raise UsageError(
            f"site '{site.name}' has blocks of {nodes} nodes in pool '{shape.pool}', and its scheduler "
            "does not say how a program is started on each of them: write `spread: [WORDS, …]` in its file"
        )
    spreading = () if shape.nodes else (word.replace("{nodes}", str(nodes)) for word in spread)
    return Job(
        name=block_job_name(paths, block),
        command=" ".join(word if word.startswith("$") else shlex.quote(word) for word in (*spreading, *node)),
        folder=folder,
        stdout=folder / f"{stem}.out",
        stderr=folder / f"{stem}.err",
        nodes=nodes,
        cores=cores_of(pool),
        walltime=block.walltime,
        gpus=pool.gpus if shape.gpus else 0,
        memory=pool.memory or 0,
        queue=pool.queue,
        account=pool.account or site.account,
        options=(*site.options, *pool.options),
        setup=(f"date +%s > {shlex.quote(str(folder / stem))}.began", *site.setup, *pool.setup),
    )


def node_script(site: Site, scheduler: Scheduler, paths: RunPaths, block: Block, command: str) -> str:
    """Return what one node of a block runs: Parsl's pool, under the node's keeper."""
    shape = block.shape
    pool, folder = site.pools[shape.pool], shlex.quote(str(paths.root))
    hosts = shlex.quote(str(paths.blocks / f"{block.name}.hosts"))
    began = shlex.quote(str(paths.block_begin(block.name)))
    named = (f"printf '%s\\n' $({scheduler.hosts}) > {hosts}", f"export DIEL_NODE_FILE={hosts}")
    return "\n".join(
        [
            "#!/bin/sh",
            *dropping_lines(),
            *exports(
                **FIXED,
                DIEL_RUN_DIR=str(paths.root),
                DIEL_BLOCK=block.name,
                DIEL_CONTROLLER_EPOCH=str(block.epoch),
                DIEL_BLOCK_WALLTIME=f"{block.walltime:.0f}",
                DIEL_GRACE=f"{site.grace:g}",
                DIEL_GPU_VARIABLES=",".join(pool.gpu_variables),
                DIEL_OOM_WORDS=scheduler.oom,
                OMP_NUM_THREADS=str(shape.cores),  # some schedulers set it to the cores of the whole node
            ),
            *((f'export DIEL_NODE_NAME="$({scheduler.node})"',) if scheduler.node else ()),
            *(named if shape.nodes and scheduler.hosts else ()),
            # The job's begin, and not this node's: what comes before can take long.
            f"began=$(cat {began} 2>/dev/null || date +%s)",
            "export DIEL_BLOCK_END=$(( began + DIEL_BLOCK_WALLTIME ))",
            *site.setup,  # again: what the job's script sets does not reach all nodes everywhere
            *pool.setup,
            f"cd {folder} || exit 1",
            f"exec {shlex.join(PYTHON)} -m diel.backends.executors.node {command}",
            "",
        ]
    )


def planned(plan: Plan, shape: Shape, number: int = 0) -> Block:
    """Return a block as a new run would ask for it."""
    walltime = shape.block_walltime(plan.site.pools[shape.pool], plan.site.grace)
    return Block(f"1-{number}", shape, 0, walltime, 0.0, 1)


def block_jobs(plan: Plan, runs: Path) -> Iterator[tuple[str, Job]]:
    """Yield the jobs that a new run in `runs` would ask for, with their pools; a job may come again."""
    paths = RunPaths(runs.resolve() / f"{plan.workflow.name}-1")
    scheduler = scheduler_named(plan.site.scheduler)
    for shape in plan.shapes:
        job = block_job(plan.site, scheduler, paths, planned(plan, shape))
        yield shape.pool, job._replace(name="diel-trial")


def try_out(plan: Plan, jobs: Iterable[tuple[str, Job]]) -> None:
    """Ask whether the scheduler takes these jobs, and keep none. Raise UsageError if it refuses one."""
    scheduler = scheduler_named(plan.site.scheduler)
    with tempfile.TemporaryDirectory(prefix="diel-") as folder:
        script = Path(folder) / "trial.sh"
        for pool, job in dict.fromkeys(jobs):
            try:
                text = scheduler.script(job)
            except SchedulerRefused as error:
                where = repr(str(job.folder.parents[2]))
                raise UsageError(f"a run in {where} cannot have jobs: {error}; use another --runs") from error
            script.write_text(text, encoding="utf-8", errors="surrogateescape")
            try:
                scheduler.try_out(script)
            except SchedulerRefused as error:
                raise NeverRuns(refusal(plan.site, pool, str(error))) from error
            except SchedulerBusy:
                return


def refusal(site: Site, pool: str, why: str) -> str:
    """Return the message of a refusal, in the words of the site file, with what to do."""
    spec = site.pools[pool]
    named = {"queue": spec.queue, "account": spec.account or site.account}
    keys = [f"`{key}: {value}`" for key, value in named.items() if value]
    keys += [f"`{option}`" for option in (*site.options, *spec.options)]
    options = f" ({', '.join(keys)})" if keys else ""
    return (
        f"{REFUSED} a block of pool '{pool}' of site '{site.name}'{options}: {why}\n"
        f"fix the site file, or choose another site by --site; `diel doctor --site {site.name}` checks it"
    )


def is_at_start(history: History) -> bool:
    """Return whether nothing of a new run has run yet, and its user is still there."""
    return history.epoch == 1 and not history.workers and time.time() - history.began < ATTENDED


def is_answered(history: History) -> bool:
    """Return whether the scheduler lets a run's first block wait or run, or none is needed any longer."""
    if history.ended is not None or history.trouble.startswith(REFUSED):
        return history.ended is not None
    blocks = history.blocks.values()
    return any(
        block["state"] == "running" or (block["reason"] and not block.get("hopeless")) for block in blocks
    )


def refuse_hopeless(scheduler: Scheduler, job: str) -> None:
    """Wait for the first word on a new job, and end it if it can never run. Raise SchedulerRefused."""
    end = time.monotonic() + ANSWER
    while time.monotonic() < end:
        with contextlib.suppress(SchedulerBusy):
            status = scheduler.query([job]).get(job)
            if status is not None and status.hopeless:
                scheduler.cancel([job])
                raise SchedulerRefused(f"job {job} would wait forever: {status.reason}")
            if status is not None and (status.reason or status.state is not JobState.PENDING):
                return
        time.sleep(PAUSE)
