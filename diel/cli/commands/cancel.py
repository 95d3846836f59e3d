"""`diel cancel`: stops a run, a stage or a task."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from diel.cli.options import runs_option
from diel.cli.target import complete_target, run_argument
from diel.errors import UsageError, counted
from diel.journal.segment import Reader
from diel.journal.snapshot import read_run
from diel.paths import RunPaths, here
from diel.project.requests import ask_cancel
from diel.project.runs import find_run
from diel.states import TaskState
from diel.status import Status, find_stage, find_task, fold_status, read_status

if TYPE_CHECKING:
    from diel.blocks.leftovers import Leftovers

WAIT = 60.0
"""Seconds that a controller has to stop what runs."""
CLEAR = 20.0
"""Seconds that the scheduler has to end what a finished run may have left."""
PAUSE = 0.1


@click.command("cancel")
@run_argument
@click.argument("targets", nargs=-1, metavar="[STAGE|TASK]...", shell_complete=complete_target)
@runs_option
@click.option("--no-wait", is_flag=True, help="Ask, but do not wait until it has stopped.")
def command(run: str, targets: tuple[str, ...], runs: Path, no_wait: bool) -> int:
    """`diel cancel melt-3 train simulate/17` stops a stage and a task of `melt-3`. Tasks that have a result
    keep it; `diel resume` continues with the rest.
    """
    paths = find_run(runs, run)
    reader = read_run(paths)
    status = fold_status(paths, reader)
    if status.state.ended:
        return _clear(paths, reader, status)
    wanted = _check(reader, targets)
    if status.alive:
        _ask(paths, reader, wanted, no_wait=no_wait)
        return 0
    if wanted:
        word = "has not come yet" if status.awaited else "is gone"
        raise UsageError(
            f"the controller of {paths.run_id} {word}, so none of it runs; `diel cancel {paths.run_id}` "
            f"cancels all of it, `diel resume {paths.run_id}` continues it"
        )
    return _close(paths, reader, status)


def _check(reader: Reader, targets: Sequence[str]) -> list[str]:
    """Checks that each target is a stage or task of the run. Raises UsageError with the nearest name."""
    wanted = []
    for target in targets:
        if "/" in target:
            wanted.append("{}/{}".format(*find_task(reader, target)))
        else:
            find_stage(reader, target)
            wanted.append(target)
    return wanted


def _ask(paths: RunPaths, reader: Reader, targets: list[str], *, no_wait: bool) -> None:
    what = ", ".join(targets) or paths.run_id
    try:
        ask_cancel(paths, targets)
    except OSError as error:
        raise UsageError(f"cannot ask {paths.run_id} to stop: {error.strerror}") from error
    if no_wait:
        click.echo(f"asked {paths.run_id} to cancel {what}")
        return
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        status = read_status(paths, reader)
        if not status.alive or (targets and all(_has_ended(reader, target) for target in targets)):
            _tell(paths, reader, status, targets)
            return
        time.sleep(PAUSE)
    click.echo(
        f"{paths.run_id} was asked to cancel {what}, and is still at it after {WAIT:.0f} s; "
        f"`diel status {paths.run_id} --watch` shows when it is done"
    )


def _tell(paths: RunPaths, reader: Reader, status: Status, targets: list[str]) -> None:
    if not targets:
        click.echo(f"{paths.run_id} {status.state}")
    for target in targets:
        name, _, index = target.partition("/")
        stage = reader.history.stage(name)
        if index:
            click.echo(f"{target} {stage.state(int(index)).label}")
        else:
            cancelled = stage.counts()["cancelled"]
            click.echo(f"{target}: {cancelled:,} of {counted(stage.total, 'task')} cancelled")


def _has_ended(reader: Reader, target: str) -> bool:
    name, _, index = target.partition("/")
    stage = reader.history.stage(name)
    if index:
        return stage.state(int(index)).ended
    return sum(stage.states.count(state) for state in TaskState if state.ended) >= stage.total


def _clear(paths: RunPaths, reader: Reader, status: Status) -> int:
    """Ends jobs that a finished run left behind. Raises UsageError if there are none."""
    over = f"{paths.run_id} has ended already ({status.state})"
    # Needed only if jobs may be left.
    from diel.controller.closing import end_left_jobs

    found = end_left_jobs(paths, reader, patience=CLEAR)
    if found is None or not (found.ended or found.left):
        raise UsageError(f"{over}; there is nothing to cancel")
    if found.ended:
        click.echo(f"{over}; ended the jobs it had left: {', '.join(found.ended)}")
    return _tell_left(paths, found)


def _close(paths: RunPaths, reader: Reader, status: Status) -> int:
    """Cancels a run that has no controller, as its controller would have done."""
    # Needed only if a controller is gone.
    from diel.controller.closing import close

    found = close(paths, reader, status)
    if status.lease is not None and status.lease.host != socket.gethostname():
        click.echo(f"what may still run on {status.lease.host} itself ends on its own", err=True)
    coming = status.submission if status.awaited else None
    job = f" (job {coming.job})" if coming is not None and coming.job else ""
    word = "was gone" if coming is None else f"had not come yet{job}"
    click.echo(f"{paths.run_id} cancelled; its controller {word}")
    return 0 if found is None else _tell_left(paths, found)


def _tell_left(paths: RunPaths, found: Leftovers) -> int:
    """Says which jobs may still exist; returns the exit code."""
    if not found.left and not found.why:
        return 0
    why = f"the scheduler does not answer ({found.why})" if found.why else "they have not ended yet"
    jobs = f"jobs {', '.join(found.left)}" if found.left else "jobs that the run's files do not mention"
    again = f"`diel cancel {paths.run_id}{here(paths)}` tries again"
    click.echo(f"{jobs} may still exist: {why}\n    {again}", err=True)
    return 1
