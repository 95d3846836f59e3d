"""Whether the scheduler takes the jobs of a run: tried before anything is made, so that a wrong queue,
account or option is told to the one who typed it.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from diel.blocks.job import block_job
from diel.errors import UsageError
from diel.journal.history import History
from diel.paths import RunPaths
from diel.plan import Plan
from diel.scheduler import Job, JobState, Scheduler, SchedulerBusy, SchedulerRefused, scheduler_named
from diel.site import Site

REFUSED = "the scheduler does not take"
"""How it is told that a run cannot have blocks."""
ATTENDED = 60.0
"""Seconds from a run's begin in which its user is there, who can correct the site file."""
ANSWER = 5.0
"""Seconds that a scheduler has to say of a new job why it waits."""
PAUSE = 0.25
"""Seconds between two questions for that."""


class NeverRuns(SchedulerRefused):
    """The scheduler refuses the first block of a run, or says that it can never run."""

    exit_code = 2


def block_jobs(plan: Plan, runs: Path) -> Iterator[tuple[str, Job]]:
    """The jobs that a new run in `runs` would ask for, with their pools; the same job may come again."""
    paths = RunPaths(runs.resolve() / f"{plan.workflow.name}-1")
    scheduler = scheduler_named(plan.site.scheduler)
    for stage in plan.stages.values():
        walltime = stage.shape.block_walltime(plan.site.pools[stage.pool], plan.site.grace)
        job = block_job(plan.site, stage.shape, scheduler, "diel-trial", paths.blocks, "1-0", walltime)
        yield stage.pool, job


def try_out(plan: Plan, jobs: Iterable[tuple[str, Job]]) -> None:
    """Has the scheduler say whether it would take these jobs; none of them is there afterwards.

    Raises UsageError where it refuses one, or where no job script can name the run's directory. A
    scheduler that does not answer says nothing of a job.
    """
    scheduler = scheduler_named(plan.site.scheduler)
    with tempfile.TemporaryDirectory(prefix="diel-") as folder:
        script = Path(folder) / "trial.sh"
        for pool, job in dict.fromkeys(jobs):
            script.write_text(_text(scheduler, job), encoding="utf-8", errors="surrogateescape")
            try:
                scheduler.try_out(script)
            except SchedulerRefused as error:
                raise NeverRuns(refusal(plan.site, pool, str(error))) from error
            except SchedulerBusy:
                return


def _text(scheduler: Scheduler, job: Job) -> str:
    try:
        return scheduler.script(job)
    except SchedulerRefused as error:
        runs = str(job.folder.parents[2])
        raise UsageError(f"a run in {runs!r} cannot have jobs: {error}; give another by --runs") from error


def refusal(site: Site, pool: str, why: str) -> str:
    """What was refused, in the words of the site file, and what to do."""
    asked = site.pools[pool]
    named = {"queue": asked.queue, "account": asked.account or site.account}
    keys = [f"`{key}: {value}`" for key, value in named.items() if value]
    keys += [f"`{option}`" for option in (*site.options, *asked.options)]
    told = f" ({', '.join(keys)})" if keys else ""
    return (
        f"{REFUSED} a block of pool '{pool}' of site '{site.name}'"
        f"{told}: {why}\n"
        f"correct the site file, or choose another site by --site; `diel doctor --site {site.name}` checks it"
    )


def is_at_start(history: History) -> bool:
    """Whether nothing of a new run has run yet, and its user is still there."""
    return history.epoch == 1 and not history.workers and time.time() - history.began < ATTENDED


def is_answered(history: History) -> bool:
    """Whether the scheduler lets a run's first block wait or run, or none is needed any more."""
    waits = any(block["reason"] and not block.get("hopeless") for block in history.blocks.values())
    runs = any(block["state"] == "running" for block in history.blocks.values())
    if history.trouble.startswith(REFUSED):
        return history.ended is not None
    return history.ended is not None or waits or runs


def refuse_hopeless(scheduler: Scheduler, job: str) -> None:
    """Waits for the scheduler's first word on a new job; ends the job where it says that it can never run.

    Raises SchedulerRefused then.
    """
    end = time.monotonic() + ANSWER
    while time.monotonic() < end:
        with contextlib.suppress(SchedulerBusy):
            status = scheduler.query([job]).get(job)
            if status is not None and status.hopeless:
                scheduler.cancel([job])
                raise SchedulerRefused(f"job {job} would wait for ever: {status.reason}")
            if status is not None and (status.reason or status.state is not JobState.PENDING):
                return
        time.sleep(PAUSE)
