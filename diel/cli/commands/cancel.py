"""`diel cancel`: stops a run, a stage or a task."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from diel.backends.blocks.leftovers import Leftovers
from diel.base.errors import UsageError, counted
from diel.base.paths import RunPaths, here
from diel.base.states import TaskState
from diel.cli.options import runs_option
from diel.cli.target import Target, named_tasks, run_and_rest, targets, tasks_of, words_argument
from diel.observe.status.run import Status, fold_status, read_status
from diel.observe.status.stage import find_stage, find_task
from diel.store.journal.segment import Reader
from diel.store.journal.snapshot import read_run
from diel.store.project.requests import ask_cancel

WAIT = 60.0
"""Seconds that a controller has to stop what runs."""
CLEAR = 20.0
"""Seconds that the scheduler has to end what a finished run may have left."""
PAUSE = 0.1


class StopTarget(NamedTuple):
    """A stage, or some of its tasks, to be stopped."""

    text: str
    """As a command named it; a task by its point too."""
    stage: str
    tasks: Sequence[int] | None = None
    """All of the stage if None."""

    @property
    def words(self) -> list[str]:
        """As a request names it."""
        return [self.stage] if self.tasks is None else [f"{self.stage}/{index}" for index in self.tasks]

    def has_ended(self, reader: Reader) -> bool:
        stage = reader.history.stage(self.stage)
        if self.tasks is not None:
            return all(stage.state(index).ended for index in self.tasks)
        return sum(stage.states.count(state) for state in TaskState if state.ended) >= stage.total

    def outcome(self, reader: Reader) -> str:
        """Tell what became of the stop."""
        stage = reader.history.stage(self.stage)
        if self.tasks is not None and len(self.tasks) == 1:
            return f"{self.text} {stage.state(self.tasks[0]).label}"
        if self.tasks is None:
            cancelled, total = stage.counts()["cancelled"], stage.total
        else:
            states = [stage.state(index) for index in self.tasks]
            cancelled, total = states.count(TaskState.CANCELLED), len(states)
        return f"{self.text}: {cancelled:,} of {counted(total, 'task')} cancelled"


@click.command("cancel")
@words_argument("[RUN] [STAGE|TASK] [NAME=VALUE]...")
@runs_option
@click.option("--no-wait", is_flag=True, help="Ask, but do not wait until it has stopped.")
def command(words: tuple[str, ...], runs: Path, no_wait: bool) -> int:
    """`diel cancel melt-3 train simulate/17` stops a stage and a task of `melt-3`, `diel cancel simulate
    depth=2.5` all tasks of the last run with that depth. Tasks that have a result keep it; `diel resume`
    continues with the rest.
    """
    paths, named = run_and_rest(runs, words)
    reader = read_run(paths)
    status = fold_status(paths, reader)
    if status.state.ended:
        return _clear(paths, reader, status)
    stops = _check(reader, targets(named))
    if status.alive:
        _ask(paths, reader, stops, no_wait=no_wait)
        return 0
    if stops:
        word = "has not come yet" if status.awaited else "is gone"
        raise UsageError(
            f"the controller of {paths.run_id} {word}, so none of it runs; `diel cancel {paths.run_id}` "
            f"cancels all of it, `diel resume {paths.run_id}` continues it"
        )
    return _close(paths, reader, status)


def _check(reader: Reader, named: Sequence[Target]) -> list[StopTarget]:
    """Find each stage and task in the run. Raise UsageError with the nearest name or value."""
    stops = []
    for target in named:
        if "/" not in target.word and not target.at:
            find_stage(reader, target.word)
            stops.append(StopTarget(target.word, target.word))
            continue
        from diel.observe.results import RunReader  # reads the workflow, for the points

        if target.at:
            stage, tasks = tasks_of(RunReader(reader.paths), target)
        else:
            stage, index = find_task(reader, target.word)
            tasks = (index,)
        text = str(target) if len(tasks) > 1 else named_tasks(reader.paths, stage, tasks)[0]
        stops.append(StopTarget(text, stage, tasks))
    return stops


def _ask(paths: RunPaths, reader: Reader, stops: list[StopTarget], *, no_wait: bool) -> None:
    what = ", ".join(stop.text for stop in stops) or paths.run_id
    try:
        ask_cancel(paths, [word for stop in stops for word in stop.words])
    except OSError as error:
        raise UsageError(f"cannot ask {paths.run_id} to stop: {error.strerror}") from error
    if no_wait:
        click.echo(f"asked {paths.run_id} to cancel {what}")
        return
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        status = read_status(paths, reader)
        if not status.alive or (stops and all(stop.has_ended(reader) for stop in stops)):
            answers = [stop.outcome(reader) for stop in stops]
            click.echo("\n".join(answers or [f"{paths.run_id} {status.state}"]))
            return
        time.sleep(PAUSE)
    click.echo(
        f"{paths.run_id} was asked to cancel {what}, and is still at it after {WAIT:.0f} s; "
        f"`diel status {paths.run_id} --watch` shows when it is done"
    )


def _clear(paths: RunPaths, reader: Reader, status: Status) -> int:
    """End jobs that a finished run left behind. Raise UsageError if there are none."""
    over = f"{paths.run_id} has ended already ({status.state})"
    from diel.backends.blocks.leftovers import end_jobs  # only if jobs may be left

    leftovers = end_jobs(paths, reader.history, patience=CLEAR)
    if leftovers is None or not (leftovers.ended or leftovers.left):
        raise UsageError(f"{over}; there is nothing to cancel")
    if leftovers.ended:
        click.echo(f"{over}; ended the jobs it had left: {', '.join(leftovers.ended)}")
    return _tell_left(paths, leftovers)


def _close(paths: RunPaths, reader: Reader, status: Status) -> int:
    """Cancel a run that has no controller, as its controller would have done."""
    from diel.backends.blocks.leftovers import close  # only if a controller is gone

    leftovers = close(paths, reader, status)
    if status.lease is not None and status.lease.host != socket.gethostname():
        click.echo(f"what may still run on {status.lease.host} itself ends on its own", err=True)
    coming = status.submission if status.awaited else None
    job = f" (job {coming.job})" if coming is not None and coming.job else ""
    word = "was gone" if coming is None else f"had not come yet{job}"
    click.echo(f"{paths.run_id} cancelled; its controller {word}")
    return 0 if leftovers is None else _tell_left(paths, leftovers)


def _tell_left(paths: RunPaths, rest: Leftovers) -> int:
    """Name the jobs that may still exist; return the exit code."""
    if not rest.left and not rest.why:
        return 0
    why = f"the scheduler does not answer ({rest.why})" if rest.why else "they have not ended yet"
    jobs = f"jobs {', '.join(rest.left)}" if rest.left else "jobs that the run's files do not mention"
    again = f"`diel cancel {paths.run_id}{here(paths)}` tries again"
    click.echo(f"{jobs} may still exist: {why}\n    {again}", err=True)
    return 1
