"""`diel run` and `diel submit`: runs a workflow here, or hands it to a controller of its own."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Unpack, get_args

import click

from diel.backends.blocks.script import NeverRuns
from diel.base.errors import DielError
from diel.base.paths import RunPaths, here
from diel.cli.commands.plan import plan_to_start
from diel.cli.options import Output, Start, json_option, start_options, workflow_options
from diel.controller.home import SchedulerSilent, has_come, submit_new
from diel.controller.start import discard, start
from diel.observe.status.columns import columns
from diel.observe.status.run import read_status
from diel.planning.check.remarks import warnings
from diel.planning.plan import Plan
from diel.site.find import detect
from diel.store.project.lease import read_lease
from diel.store.project.submission import Home, Submission
from diel.ui.terminal.progress import drive

TAIL = 20
SOON = 3.0
"""Seconds after which the command says what it waits for."""


@click.command("run")
@workflow_options("Where to run; `local` if neither this nor DIEL_SITE is given.")
@start_options
@click.option("-q", "--quiet", is_flag=True, help="Show no progress, only failures and the end.")
def command(quiet: bool, **options: Unpack[Start]) -> int:
    """Results of earlier runs are reused if nothing that they depend on has changed."""
    runs = options["runs"]
    fresh = not runs.exists()
    plan, manner = plan_to_start(**options)
    for problem in warnings(plan.checked, runs):
        click.echo(f"warning: {problem}", err=True)
    controller = start(plan, runs, **manner)
    try:
        return drive(controller, quiet=quiet)
    except NeverRuns:
        discard(controller.paths, fresh=fresh)
        raise


@click.command("submit")
@workflow_options("Where to run; if not given, DIEL_SITE, or what is found here.")
@start_options
@click.option(
    "--home",
    type=click.Choice(get_args(Home)),
    help="Where the controller lives, instead of where the site says: a process here, a job, or one "
    "allocation that also holds the workers.",
)
@json_option
def submit(home: Home | None, out: Output, **options: Unpack[Start]) -> int:
    """Its controller lives where the site says: as a process of its own on this host, in a small job, or
    in one allocation together with its workers.
    """
    options["site"] = options["site"] or os.environ.get("DIEL_SITE") or detect()
    plan, manner = plan_to_start(**options)
    with patience(plan, out):
        paths, submission = submit_new(plan, options["runs"], home=home, **manner)
    return tell(paths, plan, submission, out)


@contextmanager
def patience(plan: Plan, out: Output) -> Iterator[None]:
    """Say what a slow submission waits for. Raise DielError with the next steps if nothing answers at all."""
    words = "waiting at most two minutes for the scheduler to take the run's first job …"
    timer = threading.Timer(SOON, lambda: click.echo(words, err=True))
    timer.daemon = True
    if plan.site.scheduled:
        timer.start()
    try:
        yield
    except SchedulerSilent as error:
        paths, where = error.paths, here(error.paths)
        if out.as_json:
            document = _document(paths, plan, error.made)
            out.show(lambda: document, ())
        raise DielError(
            f"{paths.run_id} was requested, and its job may still be queued: {error.why}\n"
            f"    `diel status {paths.run_id}{where}` shows whether it starts, "
            f"`diel cancel {paths.run_id}{where}` withdraws it"
        ) from error
    finally:
        timer.cancel()


def tell(paths: RunPaths, plan: Plan, submission: Submission, out: Output) -> int:
    """Wait for a controller on this host, then say how to follow the run; return the exit code."""
    came = submission.job is not None or has_come(paths, submission)
    run, where = paths.run_id, here(paths)
    if not came and not out.as_json:
        output = ""
        with suppress(OSError):
            output = paths.controller_log.read_text(encoding="utf-8", errors="replace")
        last = "\n".join(f"    {line}" for line in output.splitlines()[-TAIL:])
        text = f"{run}: its controller did not take it\n{last}\n"
        text += f"{paths.controller_log} has all its output; `diel resume {run}{where}` tries again"
        click.echo(text, err=True)
        return 1
    held = read_lease(paths)
    whose = "its controller and workers are" if submission.home == "inside" else "its controller is"
    process = f"process {submission.pid if held is None else held[0].pid} on {submission.host}"
    what = process if submission.job is None else f"job {submission.job}"
    submitted = f"{run}: submitted to site '{plan.site.name}', {whose} {what}"
    steps = (
        [f"    diel status {run}{where}", "# its state"],  # a shell's comment: the line can be copied
        [f"    diel logs {run} TASK{where}", "# what a task printed"],
        [f"    diel cancel {run}{where}", "# stop it"],
    )
    out.show(lambda: _document(paths, plan, submission), [submitted, *columns(steps)])
    return 0 if came else 1


def _document(paths: RunPaths, plan: Plan, submission: Submission) -> dict[str, Any]:
    return {
        "run": paths.run_id,
        "dir": str(paths.root),
        "site": plan.site.name,
        "state": read_status(paths).state.value,
        "home": submission.home,
        "job": submission.job,
        "host": submission.host,
        "pid": submission.pid,
        "log": str(paths.controller_log),
    }
