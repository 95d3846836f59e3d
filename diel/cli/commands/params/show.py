"""`diel params show`: the hyperparameters of a workflow or a run, and where their values come from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import click

from diel.cli.options import json_option, runs_option, settings_options
from diel.cli.target import complete_run, is_file
from diel.errors import UsageError, counted
from diel.graph import hyperparameter_reads
from diel.load import load
from diel.paths import RunPaths
from diel.project.runs import find_run
from diel.registry import Value, kept_values, read_changes, read_current, resolve
from diel.results import RunReader
from diel.spec import Workflow
from diel.status import AxisStatus, CourseStatus, read_status
from diel.status.axis import CourseState, trial_document
from diel.table import Listing, render, shown

NARROW = 48


class ShownParam(TypedDict):
    """A hyperparameter with its value, and the stages and axes that use it."""

    type: str
    default: Any
    low: float | None
    high: float | None
    log: bool
    choices: list[Any] | None
    description: str
    value: Any
    origin: str | None
    source: str
    read_by: list[str]
    searched_by: list[str]
    published_by: list[str]


class ShownSearch(TypedDict):
    """A search, and its best trials."""

    axis: str
    at: dict[str, Any]
    state: CourseState
    reason: str
    trials: int
    objectives: list[dict[str, str]]
    best: list[dict[str, Any]]


class ShownParams(TypedDict):
    """Everything that is shown, for a workflow's file or for a run."""

    workflow: str
    run: str | None
    hyperparameters: dict[str, ShownParam]
    searches: list[ShownSearch]
    published: list[dict[str, Any]]
    unreadable: list[str]


@click.command("show", short_help="Show those of a workflow FILE or a RUN.")
@click.argument("target", default="last", metavar="[FILE|RUN]", shell_complete=complete_run)
@settings_options
@runs_option
@json_option
def show(
    target: str, settings: tuple[str, ...], params_files: tuple[Path, ...], runs: Path, as_json: bool
) -> int:
    """Show the hyperparameters of a workflow FILE or of a RUN: type, bounds, value, and where it comes from.

    Also which stages read each, and of a run what its searches found and what it published.
    """
    if is_file(target):
        document = _of_file(Path(target), settings, params_files, runs)
    elif settings or params_files:
        raise UsageError("--set and --params go with a workflow file; a run has its values already")
    else:
        document = _of_run(runs, target)
    click.echo(json.dumps(document) if as_json else "\n".join(_lines(document)))
    return 0


def _of_file(
    path: Path, settings: tuple[str, ...], params_files: tuple[Path, ...], runs: Path
) -> ShownParams:
    held, unreadable = read_current(runs)
    document = load(path, lambda head: resolve(head, settings, params_files, held).plain())
    values = resolve(document, settings, params_files, held).values
    reads = {name: sorted(hyperparameter_reads(name, one)) for name, one in document.spec.stages.items()}
    return {
        "workflow": document.spec.name,
        "run": None,
        "hyperparameters": _described(document.spec, values, reads),
        "searches": [],
        "published": [],
        "unreadable": [str(file) for file in unreadable],
    }


def _of_run(runs: Path, name: str) -> ShownParams:
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
    """Where a value was set in a run that an earlier diel made, if the run still has it."""
    if origin == "default":
        place = run.document.problem(("hyperparameters", name, "default"), "")
        return f"{place.file}:{place.line}"
    if origin == "file":
        return ", ".join(run.run_file.params_files)
    typed = [text for text in run.run_file.settings if text.partition("=")[0].strip() in (name, f"hp.{name}")]
    return f"--set {typed[-1]}" if typed else ""


def _described(
    workflow: Workflow, values: Mapping[str, Value], reads: Mapping[str, list[str]]
) -> dict[str, ShownParam]:
    none = {"value": None, "origin": None, "source": ""}
    found: dict[str, Any] = {
        name: {
            **given.model_dump(exclude={"when"}),
            **(values[name]._asdict() if name in values else none),
            "read_by": [stage for stage, names in reads.items() if name in names],
            "searched_by": [label for label, axis in workflow.axes.items() if name in axis.sets],
            "published_by": [stage for stage, one in workflow.stages.items() if name in one.publishes],
        }
        for name, given in workflow.hyperparameters.items()
    }
    return found


def reads_of_run(run: RunReader) -> dict[str, list[str]]:
    """The hyperparameters that each stage reads whose tasks are known."""
    found: dict[str, list[str]] = {}
    for _, record in run.events(b'"event":"stage"'):
        if record["event"] == "stage" and not record.get("void"):
            found[record["stage"]] = record.get("reads", [])
    return {name: found[name] for name in run.workflow.stages if name in found}


# --- searches -------------------------------------------------------------------------------------


def searches_of(paths: RunPaths) -> list[tuple[AxisStatus, CourseStatus]]:
    """Each search of a run with its axis; an axis inside others has a search for each of their points."""
    axes = [axis for axis in read_status(paths).axes if axis.facts.kind == "search"]
    return [(axis, course) for axis in axes for course in axis.courses]


def _search(axis: AxisStatus, course: CourseStatus) -> ShownSearch:
    return {
        "axis": axis.label,
        "at": dict(course.at),
        "state": course.state,
        "reason": course.reason,
        "trials": len(course.trials),
        "objectives": axis.objectives,
        "best": [trial_document(trial) for trial in course.good],
    }


def _search_lines(search: ShownSearch) -> Iterator[str]:
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


# --- as text --------------------------------------------------------------------------------------

_ROLES: tuple[tuple[str, Literal["read_by", "searched_by", "published_by"]], ...] = (
    ("reads", "read_by"),
    ("sets", "searched_by"),
    ("publishes", "published_by"),
)


def _lines(document: ShownParams) -> Iterator[str]:
    known = document["hyperparameters"]
    if not known:
        whose = document["run"] or document["workflow"]
        yield f"{whose} has no hyperparameters; they go under `hyperparameters:` in the workflow file"
        return
    columns = ("name", "type", "value", "from", "allowed", "default", "description")
    rows = [
        (
            f"hp.{name}",
            one["type"],
            "(none)" if one["value"] is None else shown(one["value"]),
            "a search, or --set" if one["origin"] is None else origin_text(one),
            _allowed(one),
            shown(one["default"]),
            one["description"],
        )
        for name, one in known.items()
    ]
    yield from render(Listing(columns, rows, {}), width=NARROW)
    for verb, key in _ROLES:
        for who in dict.fromkeys(stage for one in known.values() for stage in one[key]):
            yield f"{who} {verb} {', '.join(f'hp.{name}' for name, one in known.items() if who in one[key])}"
    for search in document["searches"]:
        yield from _search_lines(search)
    for one in document["published"]:
        yield f"{one['stage']}/{one['task']} published hp.{one['name']} = {shown(one['value'])}"
    for file in document["unreadable"]:
        yield f"cannot be read, so ignored: {file}"


def origin_text(value: Mapping[str, Any]) -> str:
    """Where a value comes from, in words."""
    return "default" if value["origin"] == "default" else value["source"] or value["origin"]


def _allowed(one: ShownParam) -> str:
    if one["choices"] is not None:
        return " | ".join(map(shown, one["choices"]))
    low, high = one["low"], one["high"]
    if low is None and high is None:
        return ""
    bounds = f"{'…' if low is None else shown(low)} to {'…' if high is None else shown(high)}"
    return f"{bounds}, log" if one["log"] else bounds
