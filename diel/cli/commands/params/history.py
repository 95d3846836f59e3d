"""`diel params history`: every value that hyperparameters had in a project, over time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from diel.cli.commands.params.reads import reads_of_run
from diel.cli.commands.params.searched import good_trials, searches_of
from diel.cli.options import json_option, runs_option
from diel.errors import DielError, UsageError, did_you_mean
from diel.paths import RunPaths, runs_dir
from diel.project.runs import all_runs
from diel.registry import Change, read_changes
from diel.results import Recorded
from diel.table import Table, render, shown


@dataclass(frozen=True)
class Event:
    """A value that a hyperparameter had."""

    time: float
    """Seconds since the epoch."""
    name: str
    value: Any
    what: str
    """run, trial, set, unset, promotion or publication."""
    source: str
    """In words: where the value of a run is from, what a trial scored, who set it."""
    run: str = ""
    read_by: tuple[str, ...] = ()
    """The stages whose tasks read it, of a run or trial."""


@click.command("history")
@click.argument("name", required=False)
@runs_option
@json_option
def command(name: str | None, runs: Path | None, as_json: bool) -> int:
    """Show every value of NAME over time, or of all hyperparameters.

    Values of runs and where they are from, the best trials of their searches, what was set, promoted and
    published for the project.
    """
    place = runs_dir(runs)
    changes, unreadable = read_changes(place)
    events = [event for change in changes for event in _of_change(change)]
    for paths in all_runs(place):
        try:
            events += _of_run(paths)
        except DielError as error:
            click.echo(f"{paths.run_id} is left out: {error}", err=True)
    wanted = None if name is None else name.removeprefix("hp.")
    found = sorted((one for one in events if wanted in (None, one.name)), key=lambda one: one.time)
    if wanted is not None and not found:
        names = {event.name for event in events}
        hint = did_you_mean(wanted, names) or f"there are: {', '.join(sorted(names)) or 'none'}"
        raise UsageError(f"no hyperparameter '{wanted}' in {place}\n    {hint}")
    if as_json:
        files = [str(file) for file in unreadable]
        click.echo(json.dumps({"history": [asdict(event) for event in found], "unreadable": files}))
        return 0
    for line in _lines(found, place):
        click.echo(line)
    for file in unreadable:
        click.echo(f"cannot be read, and left alone: {file}", err=True)
    return 0


def _of_change(change: Change) -> Iterator[Event]:
    for name, value in change.values.items():
        yield Event(change.time, name, value, change.origin, change.source, change.run)
    for name in change.unset:
        yield Event(change.time, name, None, "unset", change.source, change.run)


def _of_run(paths: RunPaths) -> Iterator[Event]:
    """The values of a run, and those of the best trials of its searches. Raises DielError."""
    run = Recorded(paths)
    known = run.run_file
    reads = reads_of_run(run)
    readers = {
        name: tuple(stage for stage, names in reads.items() if name in names)
        for name in run.workflow.hyperparameters
    }
    for name, value in known.hyperparameters.items():
        source = known.sources.get(name) or known.origins.get(name, "")
        yield Event(known.created, name, value, "run", source, paths.run_id, readers.get(name, ()))
    for label, course in searches_of(paths):
        for trial in good_trials(course):
            scores = ", ".join(
                f"{goal} = {shown(score)}"
                for (goal, _), score in zip(course.facts.objectives, trial.values, strict=True)
            )
            for name, value in trial.hp.items():
                when, by = trial.ended or trial.began, readers.get(name, ())
                yield Event(
                    when, name, value, "trial", f"best: {label} {trial.number}, {scores}", paths.run_id, by
                )


def _lines(events: list[Event], runs: Path) -> Iterator[str]:
    if not events:
        yield f"no runs and no values in {runs}"
        return
    columns = ("time", "name", "value", "what", "run", "from", "read by")
    rows = [
        (
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time)),
            f"hp.{event.name}",
            "(default)" if event.what == "unset" else shown(event.value),
            event.what,
            event.run,
            event.source,
            ", ".join(event.read_by),
        )
        for event in events
    ]
    yield from render(Table(columns, rows, {}), width=60)
