"""Where a controller in the background lives: on this host, in a small job, or with its workers in a job."""

import random
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, Unpack

from diel.backends.blocks.script import REFUSED, NeverRuns, block_jobs, exports, is_answered, refuse_hopeless
from diel.base.carried import PYTHON
from diel.base.errors import DielError, UsageError
from diel.base.paths import RunPaths
from diel.base.values import format_duration
from diel.controller.start import create, discard
from diel.planning.plan import Plan
from diel.site.scheduler import Job, SchedulerBusy, SchedulerRefused, scheduler_named
from diel.site.scheduler.allocation import KEPT
from diel.site.shape import cores_of
from diel.site.site import Pool, Site
from diel.store.journal.history import History
from diel.store.journal.segment import Reader
from diel.store.project.lease import newest_epoch, read_lease, refuse_driven
from diel.store.project.run_file import RunOptions, read_run_file
from diel.store.project.submission import Home, Submission, begun, job_name, make_submission, queued, withdraw
from diel.worker.attempt.block import MARGIN

PATIENCE = 60.0
"""Seconds for which a busy scheduler is asked again."""
SHARE = 0.05
"""Part of a job's walltime that is kept for handing over to its successor."""
LONGEST_MARGIN = 600.0
"""Seconds kept for that at most."""
FIRST_BLOCK = 20.0
"""Seconds to wait until the scheduler has answered a run's first block."""
PAUSE = 0.05
"""Seconds between two looks for a controller."""
DAY = 24 * 3600.0
"""Seconds of a controller's job if its site does not say."""
SHORTEST = 300.0
"""Seconds that the job of a controller must be given: a shorter one would do little but hand over."""
Answer = TypeVar("Answer")


class SchedulerSilent(SchedulerBusy):
    """The scheduler was asked for a controller's job, and has not said whether it took it."""

    def __init__(self, paths: RunPaths, submission: Submission, why: str) -> None:
        super().__init__(
            f"{paths.run_id} was requested, and its job may still be queued: {why}\n"
            f"`diel cancel {paths.run_id}` withdraws it, `diel status {paths.run_id}` shows whether it starts"
        )
        self.paths = paths
        self.made = submission
        self.why = why


class ControllerRefused(SchedulerRefused):
    """The scheduler refuses a controller's job as the site describes it."""

    exit_code = 2


def choose_home(site: Site, chosen: Home | None = None) -> Home:
    """Return where a controller of a site lives. Raise UsageError if it cannot live as wanted."""
    if site.scheduled:
        home = chosen or site.controller.home
        if home == "inside" and not scheduler_named(site.scheduler).share:
            raise UsageError(
                f"scheduler '{site.scheduler}' of site '{site.name}' cannot start blocks within one "
                "allocation: choose `controller: {home: job}` or --home login"
            )
        return home
    if chosen is None and site.controller.home != "login":
        raise UsageError(
            f"site '{site.name}' says `controller: {{home: {site.controller.home}}}` and has no scheduler "
            "(`scheduler: local`), so a controller cannot live in a job: leave `home` out there, or name the "
            "scheduler; --home login submits as it is"
        )
    if chosen not in (None, "login"):
        raise UsageError(
            f"site '{site.name}' has no scheduler, so a controller cannot live in a job; "
            "leave --home out, or choose a site with a scheduler by --site"
        )
    return "login"


def refuse_homeless(plan: Plan, home: Home) -> None:
    """Raise UsageError for what no one allocation holds, and for a job that is over at once."""
    walltime = 0.0 if home == "login" else job_walltime(plan, home)
    for stage in plan.stages.values() if home == "inside" else ():
        if stage.shape.walltime > walltime - KEPT - MARGIN:
            raise UsageError(
                f"stage '{stage.name}' needs {format_duration(stage.shape.walltime)} for a task, and the "
                f"allocation that holds the run lasts {format_duration(walltime)}, the last "
                f"{KEPT + MARGIN:.0f} s of which are diel's: give it more by `controller: {{walltime: …}}` "
                f"of site '{plan.site.name}' (no more than its pool's `max_walltime`), or choose --home login"
            )
    if home == "job" and walltime < SHORTEST:
        own, name = plan.site.controller, _pool_name(plan)
        short = "`controller: {walltime: …}`" if walltime == own.walltime else f"pool '{name}'"
        raise UsageError(
            f"a controller's job needs at least {format_duration(SHORTEST)}, and {short} of site "
            f"'{plan.site.name}' gives it {format_duration(walltime)}: give it more (a day is usual), name "
            "a queue for it by `controller: {queue: …}`, or choose --home login"
        )


def submit_new(
    plan: Plan, runs: Path, *, home: Home | None = None, **manner: Unpack[RunOptions]
) -> tuple[RunPaths, Submission]:
    """Make a new run and request its controller; a refusal leaves nothing. Raise UsageError,
    SchedulerRefused, and Unanswered where its job may be queued: then the run stays."""
    fresh = not runs.exists()
    where = choose_home(plan.site, home)
    refuse_homeless(plan, where)
    jobs = () if where == "inside" else block_jobs(plan, runs)
    paths = create(plan, runs, jobs, **manner)
    try:
        submission = submit(paths, plan, where)
        if where == "login" and plan.site.scheduled:
            _await_first_block(paths, submission)
    except SchedulerSilent:
        raise
    except DielError:
        discard(paths, fresh=fresh)
        raise
    return paths, submission


def _await_first_block(paths: RunPaths, submission: Submission) -> None:
    """Raise NeverRuns if the scheduler refuses the first block: the controller has given up by then."""
    end, reader = time.monotonic() + FIRST_BLOCK, Reader(paths, History())
    history = reader.history
    while submission.starts(time.time()) and time.monotonic() < end and not is_answered(history):
        time.sleep(PAUSE)
        reader.catch_up()
    reader.catch_up()
    if history.ended is not None and history.trouble.startswith(REFUSED):
        while submission.starts(time.time()):
            time.sleep(PAUSE)
        raise NeverRuns(history.trouble)


def submit(paths: RunPaths, plan: Plan, home: Home) -> Submission:
    """Request a controller. Raise UsageError where the run has one, SchedulerRefused where its job is not
    taken: then nothing is left of the request. Raise Unanswered where its job may be queued."""
    refuse_driven(paths)
    refuse_homeless(plan, home)
    submission = make_submission(paths, home)
    try:
        if home == "login":
            return _start(paths, submission)
        queued = queue(paths, plan, submission)
        refuse_hopeless(scheduler_named(plan.site.scheduler), queued.job or "")
        return queued
    except SchedulerBusy as error:
        raise SchedulerSilent(paths, submission, str(error)) from error
    except SchedulerRefused as error:
        withdraw(paths, submission)
        raise ControllerRefused(_refusal(plan, home, error)) from error
    except DielError:
        withdraw(paths, submission)
        raise


def _refusal(plan: Plan, home: Home, error: SchedulerRefused) -> str:
    """Return the message of a refusal, by the keys of the site file, with what to do."""
    site, own = plan.site, plan.site.controller
    if home != "inside" and own.queue is not None:
        request = f"`controller: {{queue: {own.queue}}}`"
    else:
        name = _pool_name(plan)
        pool = site.pools[name]
        request = f"pool '{name}'" + (f" (`queue: {pool.queue}`)" if pool.queue else "")
    more = ", --home login needs no job of its own" if home == "job" else ""
    return (
        f"the scheduler refuses the job of the controller, which asks for {request} of site '{site.name}': "
        f"{error}\nfix the site file, or choose another site by --site{more}; "
        f"`diel doctor --site {site.name}` checks it; nothing was submitted"
    )


def has_come(paths: RunPaths, submission: Submission, patience: float = PATIENCE) -> bool:
    """Wait until a controller on this host has taken its run; False if it ended before, or is late."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if newest_epoch(paths) > submission.epoch and read_lease(paths) is not None:
            return True
        if not submission.starts(time.time()):
            return newest_epoch(paths) > submission.epoch
        time.sleep(PAUSE)
    return False


def _words(paths: RunPaths, submission: int) -> list[str]:
    return [*PYTHON, "-m", "diel.controller", str(paths.root), "--submission", str(submission)]


def _start(paths: RunPaths, submission: Submission) -> Submission:
    """Start a process that outlives this one, its terminal and its shell."""
    cwd = Path(read_run_file(paths).cwd)
    try:
        with open(paths.controller_log, "ab") as log:
            process = subprocess.Popen(
                _words(paths, submission.number),
                cwd=cwd if cwd.is_dir() else paths.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        raise UsageError(f"cannot start the controller of {paths.run_id}: {error.strerror}") from error
    process.returncode = 0  # it is on its own from here on: nobody here waits for it
    return begun(paths, submission, process.pid)


def queue(
    paths: RunPaths,
    plan: Plan,
    submission: Submission,
    *,
    after: str | None = None,
    patience: float | None = None,
) -> Submission:
    """Queue the job of a submission. Raise SchedulerRefused and SchedulerBusy."""
    scheduler = scheduler_named(plan.site.scheduler)
    paths.controllers.mkdir(parents=True, exist_ok=True)
    script = paths.controllers / f"c{submission.number}.sh"
    asked = controller_job(plan, paths, submission.home, submission.number, after)
    script.write_text(scheduler.script(asked), encoding="utf-8")
    name = job_name(paths, submission.number)
    try:
        job = scheduler.submit(script)
    except SchedulerBusy:
        # A scheduler that did not answer in time may still have queued it.
        job = persist(lambda: scheduler.find(name).get(name) or scheduler.submit(script), patience)
    return queued(paths, submission, job)


def controller_job(plan: Plan, paths: RunPaths, home: Home, number: int = 1, after: str | None = None) -> Job:
    """Return the job for the scheduler. Pure. Raise UsageError if no single allocation can hold the run."""
    site = plan.site
    whole = home == "inside"
    pool = inside_pool(plan) if whole else plan.site.pools[_pool_name(plan)]
    own = site.controller
    # Without a queue of its own it uses the pool's, and may need the pool's options there.
    options = pool.options if whole or (own.queue is None and not own.options) else own.options
    folder = paths.controllers
    walltime = job_walltime(plan, home)
    words, log = shlex.join(_words(paths, number)), shlex.quote(str(paths.controller_log))
    command = f'{words} --end "$(( $(date +%s) + {walltime:.0f} ))" >> {log} 2>&1'
    return Job(
        name=job_name(paths, number),
        command="\n".join([*exports(), command]),
        folder=folder,
        stdout=folder / f"c{number}.out",
        stderr=folder / f"c{number}.err",
        nodes=max(stage.shape.block_nodes(pool) for stage in plan.stages.values()) if whole else 1,
        cores=cores_of(pool) if whole else own.cores,
        walltime=walltime,
        gpus=pool.gpus if whole else 0,
        memory=(pool.memory if whole else own.memory) or 0,
        queue=pool.queue if whole else own.queue or pool.queue,
        account=pool.account or site.account,
        options=(*site.options, *options),
        setup=(*site.setup, *(pool.setup if whole else ())),
        after=after,
    )


def job_walltime(plan: Plan, home: Home) -> float:
    """Return seconds that a controller's job may last: as long as the site says, and its queue allows."""
    own = plan.site.controller
    if home == "inside":
        pool = inside_pool(plan)
        needed = max(stage.shape.block_walltime(pool, plan.site.grace) for stage in plan.stages.values())
        return needed if own.walltime is None else min(own.walltime, pool.longest)
    walltime = DAY if own.walltime is None else own.walltime
    pool = plan.site.pools[_pool_name(plan)]
    elsewhere = own.queue is not None or (pool.queue is None and bool(own.options))  # a QOS, say
    return walltime if elsewhere else min(walltime, pool.longest)


def margin(walltime: float, grace: float) -> float:
    """Return seconds before the end of its job at which a controller hands its run over."""
    return min(max(grace, SHARE * walltime), LONGEST_MARGIN, walltime / 2)


def _pool_name(plan: Plan) -> str:
    """Return the pool of the first stage: a controller's job uses its queue if it has none of its own."""
    return next(iter(plan.stages.values())).pool


def inside_pool(plan: Plan) -> Pool:
    """Return the pool of the allocation that holds a whole run. Raise UsageError if stages need several."""
    names = dict.fromkeys(stage.pool for stage in plan.stages.values())
    if len(names) > 1:
        listed = ", ".join(f"'{name}'" for name in names)
        raise UsageError(
            f"one allocation cannot hold this run, because its stages go to the pools {listed}; "
            "give them one `pool` in their `resources`, or choose --home job"
        )
    return plan.site.pools[next(iter(names))]


def persist(ask: Callable[[], Answer], patience: float | None = None) -> Answer:
    """Ask a scheduler until it answers, less and less often. Raise SchedulerBusy if it stays busy."""
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    pause = 0.5
    while True:
        try:
            return ask()
        except SchedulerBusy:
            if time.monotonic() + pause > end:
                raise
        time.sleep(pause * random.uniform(0.8, 1.2))
        pause = min(2 * pause, 10.0)
