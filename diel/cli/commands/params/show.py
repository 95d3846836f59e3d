"""`diel params show`: the hyperparameters of a workflow or a run, and where their values come from."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from diel.base.errors import DielError, UsageError, counted, did_you_mean
from diel.base.paths import RunPaths
from diel.base.values import clock
from diel.cli.options import Output, json_option, runs_option, settings_options
from diel.cli.target import complete_run, is_file
from diel.observe.results import RunReader
from diel.observe.status.axis import AxisStatus, CourseStatus, trial_document
from diel.observe.status.run import read_status
from diel.store.project.runs import all_runs, find_run
from diel.store.registry import Change, Value, kept_values, read_changes, read_current, resolve
from diel.store.table import Listing, allowed_text, render, shown
from diel.workflow.graph import hyperparameter_reads
from diel.workflow.load import load
from diel.workflow.models import Workflow

NARROW = 48


@click.command("show", short_help="Show those of a workflow FILE or a RUN.")
@click.argument("target", default="last", metavar="[FILE|RUN]", shell_complete=complete_run)
@settings_options
@runs_option
@json_option
def show(
    target: str, settings: tuple[str, ...], params_files: tuple[Path, ...], runs: Path, out: Output
) -> None:
    """Show the hyperparameters of a workflow FILE or of a RUN: type, bounds, value, and where it comes from.

    Also which stages read each, and of a run what its searches found and what it published.
    """
    if is_file(target):
        document = _of_file(Path(target), settings, params_files, runs)
    elif settings or params_files:
        raise UsageError("--set and --params go with a workflow file; a run has its values already")
    else:
        document = _of_run(runs, target)
    out.show(lambda: document, _lines(document))


def _of_file(
    path: Path, settings: tuple[str, ...], params_files: tuple[Path, ...], runs: Path
) -> dict[str, Any]:
    held, unreadable = read_current(runs)
    document = load(path, lambda head: resolve(head, settings, params_files, held).plain())
    values = resolve(document, settings, params_files, held).values
    reads = {name: sorted(hyperparameter_reads(name, stage)) for name, stage in document.spec.stages.items()}
    return {
        "workflow": document.spec.name,
        "run": None,
        "hyperparameters": _described(document.spec, values, reads),
        "searches": [],
        "published": [],
        "unreadable": [str(file) for file in unreadable],
    }


def _of_run(runs: Path, name: str) -> dict[str, Any]:
    run = RunReader(find_run(runs, name))
    changes, unreadable = read_changes(run.paths.root.parent)
    values = {
        name: Value(value.value, value.origin, value.source or _source(run, name, value.origin))
        for name, value in kept_values(run.run_file).values.items()
    }
    return {
        "workflow": run.run_file.workflow,
        "run": run.paths.run_id,
        "hyperparameters": _described(run.workflow, values, reads_of_run(run)),
        "searches": [_search(axis, course) for axis, course in searches_of(run.paths)],
        "published": [
            {"name": name, "value": value, "stage": change.stage, "task": change.task, "time": change.time}
            for change in changes
            if (change.origin, change.run) == ("publication", run.paths.run_id)
            if change.began == run.run_file.created
            for name, value in change.values.items()
        ],
        "unreadable": [str(file) for file in unreadable],
    }


def _source(run: RunReader, name: str, origin: str) -> str:
    """Return where a value was set in a run that an earlier diel made, if the run still has it."""
    if origin == "default":
        place = run.document.problem(("hyperparameters", name, "default"), "")
        return f"{place.file}:{place.line}"
    if origin == "file":
        return ", ".join(run.run_file.params_files)
    typed = [text for text in run.run_file.settings if text.partition("=")[0].strip() in (name, f"hp.{name}")]
    return f"--set {typed[-1]}" if typed else ""


def _described(
    workflow: Workflow, values: Mapping[str, Value], reads: Mapping[str, list[str]]
) -> dict[str, dict[str, Any]]:
    none = {"value": None, "origin": None, "source": ""}
    return {
        name: {
            **hyperparameter.model_dump(exclude={"when"}),
            **(values[name]._asdict() if name in values else none),
            "read_by": [stage for stage, names in reads.items() if name in names],
            "searched_by": [label for label, axis in workflow.axes.items() if name in axis.sets],
            "published_by": [stage for stage, stage_ in workflow.stages.items() if name in stage_.publishes],
        }
        for name, hyperparameter in workflow.hyperparameters.items()
    }


def reads_of_run(run: RunReader) -> dict[str, list[str]]:
    """Return the hyperparameters that each stage reads whose tasks are known."""
    reads: dict[str, list[str]] = {}
    for _, record in run.events(b'"event":"stage"'):
        if record["event"] == "stage" and not record.get("void"):
            reads[record["stage"]] = record.get("reads", [])
    return {name: reads[name] for name in run.workflow.stages if name in reads}


def searches_of(paths: RunPaths) -> list[tuple[AxisStatus, CourseStatus]]:
    """List each search of a run with its axis: an inner axis has a search for each outer point."""
    axes = [axis for axis in read_status(paths).axes if axis.facts.kind == "search"]
    return [(axis, course) for axis in axes for course in axis.courses]


def _search(axis: AxisStatus, course: CourseStatus) -> dict[str, Any]:
    return {
        "axis": axis.label,
        "at": dict(course.at),
        "state": course.state,
        "reason": course.reason,
        "trials": len(course.trials),
        "objectives": axis.objectives,
        "best": [trial_document(trial) for trial in course.good],
    }


def _search_lines(search: Mapping[str, Any]) -> Iterator[str]:
    at = f" at {pairs(search['at'])}" if search["at"] else ""
    what = "Pareto front" if len(search["objectives"]) > 1 else "best"
    none = "" if search["best"] else ", none good"
    yield f"{search['axis']}{at}: {counted(search['trials'], 'trial')}, {search['state']}{none}"
    for trial in search["best"]:
        scores = pairs_of([goal["value"] for goal in search["objectives"]], trial["values"])
        yield f"    {what}: {search['axis']} {trial['trial']}: {scores} with {pairs(trial['hp'])}"


def pairs(values: Mapping[str, Any]) -> str:
    """`hidden = 64, rate = 0.01`."""
    return pairs_of(list(values), list(values.values()))


def pairs_of(names: Sequence[str], values: Sequence[Any]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in zip(names, values, strict=True))


_ROLES = (("reads", "read_by"), ("sets", "searched_by"), ("publishes", "published_by"))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    entries = document["hyperparameters"]
    if not entries:
        whose = document["run"] or document["workflow"]
        yield f"{whose} has no hyperparameters; they go under `hyperparameters:` in the workflow file"
        return
    columns = ("name", "type", "value", "from", "allowed", "default", "description")
    rows = [
        (
            f"hp.{name}",
            entry["type"],
            "(none)" if entry["value"] is None else shown(entry["value"]),
            "a search, or --set" if entry["origin"] is None else origin_text(entry),
            allowed_text(entry["choices"], entry["low"], entry["high"], log=entry["log"]),
            shown(entry["default"]),
            entry["description"],
        )
        for name, entry in entries.items()
    ]
    yield from render(Listing(columns, rows, {}), width=NARROW)
    for verb, key in _ROLES:
        for who in dict.fromkeys(stage for entry in entries.values() for stage in entry[key]):
            yield f"{who} {verb} {', '.join(f'hp.{name}' for name in entries if who in entries[name][key])}"
    for search in document["searches"]:
        yield from _search_lines(search)
    for entry in document["published"]:
        yield f"{entry['stage']}/{entry['task']} published hp.{entry['name']} = {shown(entry['value'])}"
    for file in document["unreadable"]:
        yield f"cannot be read, so ignored: {file}"


def origin_text(value: Mapping[str, Any]) -> str:
    """Say where a value comes from."""
    return "default" if value["origin"] == "default" else value["source"] or value["origin"]


PROJECT = "project"
"""The values that a new run of the same workflow would have."""


class Event(NamedTuple):
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


@click.command("history", short_help="Show the values over time.")
@click.argument("name", required=False)
@runs_option
@json_option
def history(name: str | None, runs: Path, out: Output) -> None:
    """Show every value of NAME over time, or those of all hyperparameters.

    Values of runs and where they are from, the best trials of their searches, what was set, promoted and
    published for the project.
    """
    changes, unreadable = read_changes(runs)
    events = [event for change in changes for event in _of_change(change)]
    for paths in all_runs(runs):
        try:
            events += _events_of_run(paths)
        except DielError as error:
            click.echo(f"{paths.run_id} is left out: {error}", err=True)
    chosen = None if name is None else name.removeprefix("hp.")
    matches = sorted((row for row in events if chosen in (None, row.name)), key=lambda row: row.time)
    if chosen is not None and not matches:
        names = {event.name for event in events}
        hint = did_you_mean(chosen, names) or f"there are: {', '.join(sorted(names)) or 'none'}"
        raise UsageError(f"no hyperparameter '{chosen}' in {runs}\n    {hint}")
    files = [str(file) for file in unreadable]
    document = {"history": [event._asdict() for event in matches], "unreadable": files}
    notes = () if out.as_json else map("cannot be read, so ignored: {}".format, files)
    out.show(lambda: document, _event_lines(matches, runs), notes)


def _of_change(change: Change) -> Iterator[Event]:
    for name, value in change.values.items():
        yield Event(change.time, name, value, change.origin, change.source, change.run)
    for name in change.unset:
        yield Event(change.time, name, None, "unset", change.source, change.run)


def _events_of_run(paths: RunPaths) -> Iterator[Event]:
    """Yield the values of a run, and those of the best trials of its searches. Raise DielError."""
    run = RunReader(paths)
    run_file = run.run_file
    reads = reads_of_run(run)
    readers = {
        name: tuple(stage for stage, names in reads.items() if name in names)
        for name in run.workflow.hyperparameters
    }
    for name, value in run_file.hyperparameters.items():
        source = run_file.sources.get(name) or run_file.origins.get(name, "")
        yield Event(run_file.created, name, value, "run", source, paths.run_id, readers.get(name, ()))
    for axis, course in searches_of(paths):
        for trial in course.good:
            scores = pairs_of([goal for goal, _ in course.facts.objectives], trial.values)
            source = f"best: {axis.label} {trial.number}, {scores}"
            when = trial.ended or trial.began
            for name, value in trial.hp.items():
                yield Event(when, name, value, "trial", source, paths.run_id, readers.get(name, ()))


def _event_lines(events: list[Event], runs: Path) -> Iterator[str]:
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


@click.command("diff", short_help="Show where two runs differ.")
@click.argument("first", metavar="A", shell_complete=complete_run)
@click.argument("second", metavar="[B]", default=PROJECT, shell_complete=complete_run)
@runs_option
@json_option
def diff(first: str, second: str, runs: Path, out: Output) -> None:
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
    rows = [(f"hp.{name}", *_cells(both["a"]), *_cells(both["b"])) for name, both in differences.items()]
    same = [f"{a} and {b} have the same hyperparameters"]
    lines = render(Listing(("name", a, "from", b, "from"), rows, {}), width=60) if rows else same
    out.show(lambda: {"a": a, "b": b, "differences": differences}, lines)


def _of_project(runs: Path, run: RunReader) -> dict[str, Value]:
    """Return the values that a new run of the same workflow would have without further settings."""
    workflow = run.workflow
    values = {
        name: Value(hyperparameter.accept(hyperparameter.default), "default", "")
        for name, hyperparameter in workflow.hyperparameters.items()
        if hyperparameter.default is not None
    }
    for name, held in read_current(runs)[0].items():
        if name in workflow.hyperparameters:
            values[name] = Value(held.value, "project", held.change.source)
    return values


def _differences(first: Mapping[str, Value], second: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    """By name: the value on each side with its origin, null where a side has none."""
    rows = {}
    for name in dict.fromkeys([*first, *second]):
        a, b = first.get(name), second.get(name)
        if a is None or b is None or a.value != b.value or type(a.value) is not type(b.value):
            rows[name] = {"a": None if a is None else a._asdict(), "b": None if b is None else b._asdict()}
    return rows


def _cells(side: Mapping[str, Any] | None) -> tuple[str, str]:
    return ("(none)", "") if side is None else (shown(side["value"]), origin_text(side))
