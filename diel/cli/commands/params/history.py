"""`diel params history` and `diel params diff`: the values of hyperparameters over time, and of two runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from diel.cli.commands.params.show import origin_text, pairs_of, reads_of_run, searches_of
from diel.cli.options import json_option, runs_option
from diel.cli.target import complete_run
from diel.errors import DielError, UsageError, did_you_mean
from diel.paths import RunPaths
from diel.project.runs import all_runs, find_run
from diel.registry import Change, Value, kept_values, read_changes, read_current
from diel.results import RunReader
from diel.table import Listing, render, shown
from diel.values import clock

PROJECT = "project"
"""The values that a new run of the same workflow would have."""


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
    """In words: where a run's value comes from, what a trial scored, who set it."""
    run: str = ""
    read_by: tuple[str, ...] = ()
    """The stages of a run or trial whose tasks read it."""


@click.command("history", short_help="Show the values over time.")
@click.argument("name", required=False)
@runs_option
@json_option
def history(name: str | None, runs: Path, as_json: bool) -> int:
    """Show every value of NAME over time, or those of all hyperparameters.

    Values of runs and where they are from, the best trials of their searches, what was set, promoted and
    published for the project.
    """
    changes, unreadable = read_changes(runs)
    events = [event for change in changes for event in _of_change(change)]
    for paths in all_runs(runs):
        try:
            events += _of_run(paths)
        except DielError as error:
            click.echo(f"{paths.run_id} is left out: {error}", err=True)
    wanted = None if name is None else name.removeprefix("hp.")
    found = sorted((one for one in events if wanted in (None, one.name)), key=lambda one: one.time)
    if wanted is not None and not found:
        names = {event.name for event in events}
        hint = did_you_mean(wanted, names) or f"there are: {', '.join(sorted(names)) or 'none'}"
        raise UsageError(f"no hyperparameter '{wanted}' in {runs}\n    {hint}")
    if as_json:
        files = [str(file) for file in unreadable]
        click.echo(json.dumps({"history": [asdict(event) for event in found], "unreadable": files}))
        return 0
    click.echo("\n".join(_lines(found, runs)))
    for file in unreadable:
        click.echo(f"cannot be read, so ignored: {file}", err=True)
    return 0


def _of_change(change: Change) -> Iterator[Event]:
    for name, value in change.values.items():
        yield Event(change.time, name, value, change.origin, change.source, change.run)
    for name in change.unset:
        yield Event(change.time, name, None, "unset", change.source, change.run)


def _of_run(paths: RunPaths) -> Iterator[Event]:
    """The values of a run, and those of the best trials of its searches. Raises DielError."""
    run = RunReader(paths)
    known = run.run_file
    reads = reads_of_run(run)
    readers = {
        name: tuple(stage for stage, names in reads.items() if name in names)
        for name in run.workflow.hyperparameters
    }
    for name, value in known.hyperparameters.items():
        source = known.sources.get(name) or known.origins.get(name, "")
        yield Event(known.created, name, value, "run", source, paths.run_id, readers.get(name, ()))
    for axis, course in searches_of(paths):
        for trial in course.good:
            scores = pairs_of([goal for goal, _ in course.facts.objectives], trial.values)
            source = f"best: {axis.label} {trial.number}, {scores}"
            when = trial.ended or trial.began
            for name, value in trial.hp.items():
                yield Event(when, name, value, "trial", source, paths.run_id, readers.get(name, ()))


def _lines(events: list[Event], runs: Path) -> Iterator[str]:
    if not events:
        yield f"no runs and no values in {runs}"
        return
    columns = ("time", "name", "value", "what", "run", "from", "read by")
    rows = [
        (
            clock(event.time),
            f"hp.{event.name}",
            "(default)" if event.what == "unset" else shown(event.value),
            event.what,
            event.run,
            event.source,
            ", ".join(event.read_by),
        )
        for event in events
    ]
    yield from render(Listing(columns, rows, {}), width=60)


# --- two runs -------------------------------------------------------------------------------------


@click.command("diff", short_help="Show where two runs differ.")
@click.argument("first", metavar="A", shell_complete=complete_run)
@click.argument("second", metavar="[B]", default=PROJECT, shell_complete=complete_run)
@runs_option
@json_option
def diff(first: str, second: str, runs: Path, as_json: bool) -> int:
    """Show in which hyperparameters two runs differ, and where each value comes from.

    `project`, which B is where it is not given, means what a new run of A's workflow would have.
    """
    if first == PROJECT:
        first, second = second, first
    if first == PROJECT:
        raise UsageError("name a run to compare with the project: diel params diff RUN")
    run = RunReader(find_run(runs, first))
    against = None if second == PROJECT else RunReader(find_run(runs, second))
    a, b = run.paths.run_id, PROJECT if against is None else against.paths.run_id
    values = _of_project(runs, run) if against is None else kept_values(against.run_file).values
    differences = _differences(kept_values(run.run_file).values, values)
    if as_json:
        click.echo(json.dumps({"a": a, "b": b, "differences": differences}))
    elif not differences:
        click.echo(f"{a} and {b} have the same hyperparameters")
    else:
        rows = [(f"hp.{name}", *_cells(both["a"]), *_cells(both["b"])) for name, both in differences.items()]
        click.echo("\n".join(render(Listing(("name", a, "from", b, "from"), rows, {}), width=60)))
    return 0


def _of_project(runs: Path, run: RunReader) -> dict[str, Value]:
    """The values that a new run of the same workflow would have without further settings."""
    workflow = run.workflow
    found = {
        name: Value(given.accept(given.default), "default", "")
        for name, given in workflow.hyperparameters.items()
        if given.default is not None
    }
    for name, held in read_current(runs)[0].items():
        if name in workflow.hyperparameters:
            found[name] = Value(held.value, "project", held.change.source)
    return found


def _differences(first: Mapping[str, Value], second: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    """By name: the value on each side with its origin, null where a side has none."""
    found = {}
    for name in dict.fromkeys([*first, *second]):
        a, b = first.get(name), second.get(name)
        if a is None or b is None or a.value != b.value or type(a.value) is not type(b.value):
            found[name] = {"a": None if a is None else a._asdict(), "b": None if b is None else b._asdict()}
    return found


def _cells(side: Mapping[str, Any] | None) -> tuple[str, str]:
    return ("(none)", "") if side is None else (shown(side["value"]), origin_text(side))
