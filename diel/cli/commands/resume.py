"""`diel resume`: continues a run that failed, or whose controller is gone."""

from pathlib import Path
from typing import get_args

import click

from diel.base.errors import DielError, UsageError, counted
from diel.base.paths import RunPaths
from diel.base.states import RunState
from diel.cli.commands.run import patience, tell
from diel.cli.options import Output, fail_fast_option, json_option, runs_option
from diel.cli.target import run_argument
from diel.controller import invalidation, start, versions
from diel.controller.export import export_again
from diel.controller.home import choose_home, persist, refuse_homeless, submit
from diel.observe.results import RunReader
from diel.observe.status.columns import tasks_text
from diel.observe.status.run import standing
from diel.site.find import read_kept_site
from diel.site.scheduler import scheduler_named
from diel.store.artifacts import text_of
from diel.store.journal.snapshot import read_run
from diel.store.journal.stage_history import ranges
from diel.store.project.lease import refuse_driven
from diel.store.project.requests import ask_cancel
from diel.store.project.run_file import read_kept_workflow, refuse_copied
from diel.store.project.runs import find_run, mend_run
from diel.store.project.submission import Home, awaited, job_name, newest_submission, withdraw
from diel.ui.terminal.progress import drive


@click.command("resume")
@run_argument
@runs_option
@click.option(
    "--here", "in_foreground", is_flag=True, help="In the foreground, even if the run was submitted."
)
@click.option(
    "--home",
    type=click.Choice(get_args(Home)),
    help="Hand it to a controller of its own there, as `diel submit` does.",
)
@click.option(
    "--site", metavar="NAME", help="Read this site's file again: the same one, corrected, or another."
)
@click.option(
    "--trials",
    metavar="[AXIS=]N",
    multiple=True,
    help="Give its search more trials, so that there are N; AXIS where it has several searches.",
)
@click.option(
    "--recompute",
    type=click.Choice(["suspect"]),
    help="Simulate what was answered and then failed its audit; what read it runs again, unless it decided.",
)
@click.option("--anyway", is_flag=True, help="Hold no stage whose first tasks fail alike; a running run too.")
@click.option(
    "--update",
    is_flag=True,
    help="Take modules, files and environments as they are now, and compute again all that rests on others.",
)
@fail_fast_option
@click.option("-q", "--quiet", is_flag=True, help="In the foreground: show only failures and the end.")
@json_option
def command(
    run: str,
    runs: Path,
    in_foreground: bool,
    home: Home | None,
    site: str | None,
    trials: tuple[str, ...],
    recompute: str | None,
    anyway: bool,
    update: bool,
    fail_fast: bool,
    quiet: bool,
    out: Output,
) -> int:
    """Tasks that have a result do not run again; those that failed or were skipped do. A run that succeeded
    has nothing left to do, even if it tolerated failures: `diel run` tries those again. A submitted run is
    submitted again, one that ran in the foreground continues there. Its site is the one kept when the run was
    made; --site reads a file again.
    """
    if in_foreground and home is not None:
        raise UsageError("--here means in the foreground, --home does not: give one of them")
    paths = find_run(runs, run)
    read_kept_workflow(paths)  # a damaged run is reported as such, even if nothing is left to do
    history = read_run(paths).history
    if recompute is not None and not history.is_doubted():
        raise UsageError(f"{paths.run_id} has no suspect result: its audits speak against no answer")
    recorded = RunReader(paths)
    refuse_copied(paths)
    another, resting = _look(recorded, strict=bool(trials or recompute), update=update)
    more = invalidation.read_trials(recorded, trials) if trials else {}
    if more:
        refuse_driven(paths)
        had = {label: axis.size for label, axis in recorded.adaptive.items()}
        steps = [(label, had[label], trials) for label, trials in more.items() if trials > had[label]]
        start.change_run_file(paths, trials=(*recorded.run_file.trials, *steps))
        recorded = RunReader(paths)
    if history.state is RunState.SUCCEEDED and not invalidation.is_extended(recorded) and not another:
        exports = export_again(RunReader(paths)) if history.exports else 0
        what = f"{counted(exports, 'export')} put in place again" if exports else "there is nothing to do"
        click.echo(f"{paths.run_id} has succeeded: {what}", err=out.as_json)
        return 0
    last = newest_submission(paths)
    foreground = in_foreground or (last is None and home is None)
    if foreground and out.as_json:
        raise UsageError("--json says how a run was submitted: give --home, or leave --json out")
    if anyway:
        ask_cancel(paths, kind="anyway")
        if standing(paths, read_run(paths).history).alive:
            click.echo(f"{paths.run_id}: what was held goes on, and nothing more of the run will be held")
            return 0
    refuse_driven(paths)
    start.change_run_file(paths, fail_fast=fail_fast)
    mend_run(paths)
    _take_new(paths, another, resting)
    anew = plan = where = None
    if not foreground or site is not None:
        anew = None if site is None else start.find_site_again(paths, site)
        plan = start.plan_again(paths, anew)
        start.refuse_unrunnable(plan)
    if plan is not None and not foreground:
        where = choose_home(plan.site, home or (last.home if last is not None else None))
        refuse_homeless(plan, where)
    _take_back(paths, forced=in_foreground)
    _make_again(paths, suspect=recompute is not None)
    if anew is not None:
        start.keep_site(paths, anew)
    if plan is None or where is None:
        return drive(start.take_over(paths), quiet=quiet)
    with patience(plan, out):
        submission = submit(paths, plan, where)
    return tell(paths, plan, submission, out)


def _look(
    run: RunReader, *, strict: bool, update: bool
) -> tuple[list[versions.ChangedSource], invalidation.Again]:
    """Look for what a run would read otherwise than when it began; nothing if no task is left to read it.
    With the tasks to compute again for an `update`. Raise UsageError where that would mix versions; `strict`
    says that tasks which ended will run again."""
    paths, name = run.paths, run.paths.run_id
    if standing(paths, run.history).alive:
        return [], {}
    for line in versions.news(run):
        click.echo(line, err=True)
    try:
        every = changed = versions.differences(paths, run)
        axes = versions.changed_axes(run, gone=not update)
        if changed and not (update or strict):
            invalidation.find_missing(run)  # what runs again reads its files again
            changed = [difference for difference in changed if versions.is_unfinished(run, difference)]
    except DielError:
        return [], {}  # whatever it is: the controller meets it too
    anew = f"start anew with `{run.run_file.command_line}`, which takes from the cache what has not changed"
    if axes and update:
        raise UsageError(f"{name} cannot take what is there now: {axes}: {anew}")
    if not changed:
        if axes and run.history.state is not RunState.SUCCEEDED:
            click.echo(f"{name} goes on at the points that it began with: {axes}", err=True)
        return [], {}
    refusal = f"or {anew}: {axes}" if axes else ""
    try:
        run = RunReader(paths)
        rerun = versions.resting_on(run, every)
        plan = start.plan_again(paths, anew=update)  # nothing changes where that cannot be
        cost = (
            f"{_names(rerun)} ({versions.cost_of(run, plan, rerun)})" if rerun else "nothing that is finished"
        )
    except UsageError as error:
        if update:
            raise
        rerun, cost, refusal = {}, "", refusal or str(error)
    if not update:
        rest = len(every) - len(changed)
        more = f" and {rest} more that finished tasks read" if rest else ""
        takes = f"or `diel resume {name} --update` takes it{more} as it is now, and computes again {cost}"
        raise UsageError(
            f"{name} would mix two versions, for what it reads is no longer what it began with:\n"
            f"{versions.listed(changed)}\nput it back; {refusal or takes}"
        )
    click.echo(
        f"{name} takes what is there now, and computes again {cost}:\n{versions.listed(changed)}", err=True
    )
    return changed, rerun


def _take_new(paths: RunPaths, another: list[versions.ChangedSource], resting: invalidation.Again) -> None:
    if another:  # the tasks first: killed between the two, it is asked again
        invalidation.write_again(paths, read_run(paths).history.epoch, [resting])
        versions.update_sources(paths)


def _make_again(paths: RunPaths, *, suspect: bool) -> None:
    """Mark results to be made again: those that lack what is tried again, or whose files are gone and
    needed; and, if asked, suspect ones.

    Raise UsageError where the journal is in a form that this diel cannot read.
    """
    run = RunReader(paths)
    epoch = run.history.epoch
    try:
        doubted, stays = invalidation.find_suspect(run) if suspect else ({}, {})
        outdated, outputs = invalidation.find_outdated(run, doubted)
        extended = invalidation.find_extended(run)
        missing, present, texts = invalidation.find_missing(run)  # what runs again reads its inputs again
    except DielError:
        return  # whatever it is: the controller meets it too, and names the task
    early = "went on without what is still to come, and will run again too"
    for rerun, before, why in (
        (doubted, "", "run again: they are suspect answers, or read some"),
        ({} if doubted else outdated, "", early),
        (extended, "", early),
        (missing, f"{text_of(texts)}; ", "will run again, for others have yet to read what they made"),
    ):
        if rerun:
            click.echo(f"{paths.run_id}: {before}{_names(rerun)} {why}", err=True)
    if outdated or extended or missing:
        invalidation.write_again(paths, epoch, (outdated, extended, missing), stays, {**outputs, **present})


def _take_back(paths: RunPaths, *, forced: bool) -> None:
    """Withdraw a controller that was requested and has not come. Raise UsageError unless `forced`."""
    coming = awaited(paths, read_run(paths).history)
    if coming is None:
        return
    if coming.home == "login":
        raise UsageError(f"the controller of {paths.run_id} is just starting (process {coming.pid})")
    scheduler = scheduler_named(read_kept_site(paths).scheduler)
    name = job_name(paths, coming.number)
    job = persist(lambda: scheduler.find(name)).get(name)  # by its name: ids are reused
    if job is not None and not forced:
        status = persist(lambda: scheduler.query([job])).get(job)
        state = "" if status is None else f" ({status.state}{f': {status.reason}' if status.reason else ''})"
        raise UsageError(
            f"{paths.run_id} waits for its controller, job {job}{state}, and continues when that starts; "
            f"`diel resume {paths.run_id} --here` continues at once, in the foreground"
        )
    if job is not None:
        persist(lambda: scheduler.cancel([job]))
    withdraw(paths, coming)


def _names(rerun: invalidation.Again) -> str:
    return ", ".join(f"{stage}/{tasks_text(ranges(tasks))}" for stage, tasks in rerun.items())
