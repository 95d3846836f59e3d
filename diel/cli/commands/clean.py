"""`diel clean`: says how much space runs take, and removes them."""

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from diel.base.errors import DielError, UsageError, counted
from diel.base.paths import RunPaths, here
from diel.base.states import RunState
from diel.base.values import format_duration, format_size
from diel.cli.commands.status import size_of
from diel.cli.options import duration, runs_option
from diel.cli.target import complete_run
from diel.controller.export import outlive
from diel.controller.unneeded_outputs import drop, find_unneeded
from diel.observe.results import RunReader
from diel.observe.status.columns import columns, paint_state
from diel.observe.status.run import Status, read_status
from diel.site.scheduler import JobState
from diel.store.project.lease import driver, refuse_driven
from diel.store.project.runs import all_runs, find_run, identity_of_run, stillborn
from diel.worker.environments.kept import remove_environment, unneeded_environments

REMOVED = ".removed-"
"""The name of a run's directory while it is being removed: it is no longer a run."""


@dataclass(frozen=True)
class RemovableRun:
    """A run that may be removed."""

    paths: RunPaths
    status: Status | None
    """None where its journal cannot be read."""
    identity: str = ""

    @property
    def name(self) -> str:
        return self.paths.run_id

    @property
    def jobs(self) -> list[str]:
        """Jobs that may still run without a controller; whoever ends a run ends its jobs."""
        if self.status is None or self.status.state.ended:
            return []
        blocks = [block for block in self.status.blocks if not JobState(block["state"]).ended]
        return [str(block["job"] or block["block"]) for block in blocks]

    @property
    def last(self) -> float:
        """When something last happened in it, in seconds since the epoch."""
        ended = None if self.status is None else self.status.ended
        return self.paths.run_file.stat().st_mtime if ended is None else ended


@click.command("clean")
@click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
@runs_option
@click.option("--all", "everything", is_flag=True, help="All runs.")
@click.option("--failed", is_flag=True, help="Runs that failed or were cancelled.")
@click.option("--older-than", metavar="AGE", type=duration, help="Runs that ended longer ago: 7d, 12h.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep each workflow's N newest runs.")
@click.option(
    "--intermediate", is_flag=True, help="Keep the run; delete files that its tasks no longer need."
)
@click.option(
    "--environments", is_flag=True, help="Keep the runs; remove environments that none of them names."
)
@click.option("--force", is_flag=True, help="Also remove runs whose results later runs use.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(
    names: tuple[str, ...],
    runs: Path,
    everything: bool,
    failed: bool,
    older_than: float | None,
    keep: int | None,
    intermediate: bool,
    environments: bool,
    force: bool,
    yes: bool,
) -> None:
    """Remove the named runs, or those that match all the given options, and ask first. A run that is
    running, or whose jobs may still run, is never removed; one whose results another run took from the cache
    only with --force.

    With --intermediate the runs stay (the last one where none is named), with their values and with the
    files that no stage reads; those that stages hand to each other go, where all that read them is done.
    """
    choosing = everything or failed or older_than is not None or keep is not None
    if environments:
        if choosing or intermediate or names:
            raise UsageError("--environments stands alone: the runs stay")
        _clean_environments(runs, yes=yes)
        return
    if intermediate and choosing:
        raise UsageError("--intermediate is for named runs, or the last one")
    if intermediate:
        _trim(runs, names or ("last",), force=force, yes=yes)
        return
    if not names and not choosing:
        raise UsageError("name the runs: diel clean RUN…, or --all, --failed, --older-than AGE, --keep N")
    if names and choosing:
        raise UsageError("give either the names of runs or options that choose them")
    listed = [_run(paths) for paths in all_runs(runs)]
    if names:
        chosen = _named(runs, names)
        _refuse(chosen, listed, "removed", force=force)
    else:
        chosen = _free(_choose(listed, failed=failed, older_than=older_than, keep=keep), listed, force=force)
    leftovers = [path for path in runs.glob(f"{REMOVED}*") if path.is_dir()] + stillborn(runs)
    if not chosen and not leftovers:
        click.echo(f"nothing to remove in {runs}")
        return
    freed = _offer(chosen, leftovers, yes=yes)
    if not yes:  # a run may be another one, or have users, since the question was asked
        listed = [_run(paths) for paths in all_runs(runs)]
        now = {run.paths.root: run for run in listed}
        for run in chosen:
            if run.paths.root in now and now[run.paths.root].identity != run.identity:
                raise UsageError(f"{run.name} is another run by now; nothing was removed")
        _refuse([now.get(run.paths.root, run) for run in chosen], listed, "removed", force=force)
    _remove(chosen, leftovers)
    click.echo(f"removed {counted(len(chosen) + len(leftovers), 'run')}, freed {format_size(freed)}")


def _run(paths: RunPaths) -> RemovableRun:
    try:
        return RemovableRun(paths, read_status(paths), identity_of_run(paths.root))
    except UsageError:
        return RemovableRun(paths, None, identity_of_run(paths.root))


def _named(where: Path, names: Sequence[str]) -> list[RemovableRun]:
    half_made = {path.name for path in stillborn(where)}  # they are removed with any others
    places = [find_run(where, name) for name in names if name not in half_made]
    return [_run(paths) for paths in {paths.root: paths for paths in places}.values()]


def _refuse(
    chosen: Sequence[RemovableRun], listed: Sequence[RemovableRun], done: str, *, force: bool
) -> None:
    """Raise UsageError if a named run must not be touched: then nothing is `done`."""
    for run in chosen:
        if why := _protection(run, chosen if done == "removed" else (), listed, force=force):
            raise UsageError(f"{run.name} {why}; nothing was {done}")


def _free(
    chosen: Iterable[RemovableRun], listed: Sequence[RemovableRun], *, force: bool
) -> list[RemovableRun]:
    """Return the chosen runs that can be removed; say which ones cannot, and why."""
    removable, protected = list(chosen), True
    while protected:  # keeping one run may protect another
        reasons = {run.name: _protection(run, removable, listed, force=force) for run in removable}
        protected = any(reasons.values())
        for name in filter(reasons.get, reasons):
            click.echo(f"keeping {name}: it {reasons[name]}", err=True)
        removable = [run for run in removable if not reasons[run.name]]
    return removable


def _protection(
    run: RemovableRun, chosen: Sequence[RemovableRun], listed: Sequence[RemovableRun], *, force: bool
) -> str:
    status = run.status
    if driver(run.paths) is not None if status is None else status.alive or status.awaited:
        return f"is running (`diel cancel {run.name}` stops it)"
    if run.jobs:
        what = f"job {run.jobs[0]}" if len(run.jobs) == 1 else f"jobs {', '.join(run.jobs)}"
        return f"was interrupted, and {what} may still run: `diel cancel {run.name}{here(run.paths)}` first"
    if force:
        return ""
    gone = {other.paths.root for other in chosen}
    users = [
        other.name
        for other in listed
        if other.paths.root not in gone
        and other.paths.root.parent == run.paths.root.parent
        and other.status is not None
        and not {run.name, run.identity}.isdisjoint(other.status.origins)
    ]
    stay = (other for other in listed if other.paths.root not in {*gone, run.paths.root})
    if run.identity and any(other.identity == run.identity for other in stay):
        return ""  # a copy of it stays
    return f"has results that {', '.join(users)} uses (--force removes it anyway)" if users else ""


def _choose(
    listed: Sequence[RemovableRun], *, failed: bool, older_than: float | None, keep: int | None
) -> list[RemovableRun]:
    newer: Counter[str] = Counter()
    chosen = []
    for run in reversed(listed):
        workflow = "" if run.status is None else run.status.workflow
        recent = keep is not None and newer[workflow] < keep
        newer[workflow] += bool(workflow)
        bad = run.status is not None and run.status.state in (RunState.FAILED, RunState.CANCELLED)
        young = older_than is not None and time.time() - run.last <= older_than
        if not recent and not young and (bad or not failed):
            chosen.append(run)
    return chosen[::-1]


def _clean_environments(runs: Path, *, yes: bool) -> None:
    unneeded = unneeded_environments(runs, all_runs(runs))
    if not unneeded:
        click.echo(f"no environment to remove in {runs}: runs that are there name all of them")
        return
    sizes = [size_of(path.resolve())[0] for path in unneeded]
    click.echo("\n".join(columns([[p.name, format_size(s)] for p, s in zip(unneeded, sizes, strict=True)])))
    _ask(f"Remove {counted(len(unneeded), 'environment')}, {format_size(sum(sizes))}?", "removed", yes=yes)
    for path in unneeded:
        remove_environment(path)
    click.echo(f"removed {counted(len(unneeded), 'environment')}, freed {format_size(sum(sizes))}")


def _trim(where: Path, names: Sequence[str], *, force: bool, yes: bool) -> None:
    """Delete what the tasks of some runs handed to each other and no longer need. Raise UsageError."""
    chosen = _named(where, names)
    _refuse(chosen, [] if force else [_run(paths) for paths in all_runs(where)], "deleted", force=force)
    for run in chosen:
        recorded = RunReader(run.paths)
        spare = find_unneeded(recorded)
        if not spare:
            click.echo(f"{run.name}: nothing to delete; what tasks made is read by tasks to come, or by none")
            continue
        rows = [[".".join(part.place), counted(part.files, "file"), format_size(part.size)] for part in spare]
        click.echo("\n".join(columns(rows, right=(1, 2))))
        _ask(f"Delete {format_size(sum(part.size for part in spare))} of {run.name}?", "deleted", yes=yes)
        refuse_driven(run.paths)  # the answer may have taken a while
        if not force:
            _refuse([run], [_run(paths) for paths in all_runs(where)], "deleted", force=force)
        files, freed = drop(run.paths, recorded, spare)
        click.echo(f"{run.name}: deleted {counted(files, 'file')}, freed {format_size(freed)}")


def _offer(chosen: Sequence[RemovableRun], leftovers: Sequence[Path], *, yes: bool) -> int:
    """Say how much would be freed, and ask; return the bytes. Raise UsageError if nobody can answer."""
    listed = []
    for run in chosen:
        state = "cannot be read" if run.status is None else paint_state(run.status.state)
        age = f"{format_duration(max(0.0, time.time() - run.last))} ago"
        listed.append((run.name, state, age, size_of(run.paths.root)))
    for path in leftovers:
        state = "half removed" if path.name.startswith(REMOVED) else "half made"
        listed.append((path.name.removeprefix(REMOVED), state, "", size_of(path)))
    rows = [[*words, format_size(size), counted(files, "file")] for *words, (size, files) in listed]
    total = sum(size for *_, (size, _) in listed)
    click.echo("\n".join(columns(rows, right=(3, 4))))
    _ask(f"Remove {counted(len(rows), 'run')}, {format_size(total)}?", "removed", yes=yes)
    return total


def _ask(question: str, done: str, *, yes: bool) -> None:
    try:
        if not yes:
            click.confirm(question, abort=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise UsageError(f"nothing was {done}; --yes skips the question") from None


def _remove(chosen: Sequence[RemovableRun], leftovers: Sequence[Path]) -> None:
    """Remove a run, renamed first so that nobody sees half of it. Raise DielError."""
    for run in chosen:
        refuse_driven(run.paths)  # the answer may have taken a while
        root = run.paths.root
        aside = root.with_name(f"{REMOVED}{root.name}-{os.getpid()}")
        try:
            outlive(run.paths)
            os.rename(root, aside)
            shutil.rmtree(aside)
        except OSError as error:
            raise DielError(f"cannot remove {root}: {error.strerror or error}") from error
    for path in leftovers:
        shutil.rmtree(path, ignore_errors=True)
