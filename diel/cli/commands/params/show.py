"""`diel params show`: the hyperparameters of a workflow or a run, and where their values come from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from diel.cli.commands.params.reads import reads_of_run, reads_of_workflow
from diel.cli.commands.params.searched import searches_document, searches_lines
from diel.cli.options import complete_run, json_option, runs_option, settings_options
from diel.errors import UsageError
from diel.load import Document, load
from diel.paths import runs_dir
from diel.project.runs import find_run
from diel.registry import Value, kept_values, read_changes, read_current, resolve
from diel.results import Recorded
from diel.spec import Hyperparameter, Workflow
from diel.table import Table, render, shown

NARROW = 48


@click.command("show")
@click.argument("target", default="last", metavar="[FILE|RUN]", shell_complete=complete_run)
@settings_options
@runs_option
@json_option
def command(
    target: str, settings: tuple[str, ...], params_files: tuple[Path, ...], runs: Path | None, as_json: bool
) -> int:
    """Show the hyperparameters of a workflow FILE or of a RUN: type, bounds, value, and where it is from.

    Also which stages read each, and of a run what its searches found and what it published.
    """
    place = runs_dir(runs)
    document = _of_file(Path(target), settings, params_files, place) if _is_file(target) else None
    if document is None:
        if settings or params_files:
            raise UsageError("--set and --params go with a workflow file; a run has its values already")
        document = _of_run(place, target)
    click.echo(json.dumps(document) if as_json else "\n".join(_lines(document)))
    return 0


def _is_file(target: str) -> bool:
    return target.endswith((".yaml", ".yml")) or Path(target).is_file()


def _of_file(
    path: Path, settings: tuple[str, ...], params_files: tuple[Path, ...], runs: Path
) -> dict[str, Any]:
    held, unreadable = read_current(runs)
    document = load(path, lambda head: resolve(head, settings, params_files, held).plain())
    values = resolve(document, settings, params_files, held).values
    return {
        "workflow": document.spec.name,
        "run": None,
        "hyperparameters": _described(document.spec, values, reads_of_workflow(document.spec)),
        "searches": [],
        "published": [],
        "unreadable": [str(file) for file in unreadable],
    }


def _of_run(runs: Path, name: str) -> dict[str, Any]:
    run = Recorded(find_run(runs, name))
    changes, unreadable = read_changes(run.paths.root.parent)
    values = {
        name: Value(value.value, value.origin, value.source or _source(run, run.document, name, value.origin))
        for name, value in kept_values(run.run_file).values.items()
    }
    return {
        "workflow": run.run_file.workflow,
        "run": run.paths.run_id,
        "hyperparameters": _described(run.workflow, values, reads_of_run(run)),
        "searches": searches_document(run.paths),
        "published": [
            {"name": name, "value": value, "stage": change.stage, "task": change.task, "time": change.time}
            for change in changes
            if (change.origin, change.run) == ("publication", run.paths.run_id)
            if change.began == run.run_file.created
            for name, value in change.values.items()
        ],
        "unreadable": [str(file) for file in unreadable],
    }


def _source(run: Recorded, document: Document, name: str, origin: str) -> str:
    """Where a run's value was written, as far as a run keeps it that an earlier diel made."""
    if origin == "default":
        place = document.problem(("hyperparameters", name, "default"), "")
        return f"{place.file}:{place.line}"
    if origin == "file":
        return ", ".join(run.run_file.params_files)
    typed = [text for text in run.run_file.settings if text.partition("=")[0].strip() in (name, f"hp.{name}")]
    return f"--set {typed[-1]}" if typed else ""


def _described(
    workflow: Workflow, values: Mapping[str, Value], reads: Mapping[str, list[str]]
) -> dict[str, dict[str, Any]]:
    found = {}
    for name, given in workflow.hyperparameters.items():
        known = values.get(name)
        found[name] = {
            **_bounds(given),
            "value": None if known is None else known.value,
            "origin": None if known is None else known.origin,
            "source": "" if known is None else known.source,
            "read_by": [stage for stage, names in reads.items() if name in names],
            "searched_by": [label for label, axis in workflow.axes.items() if name in axis.sets],
            "published_by": [stage for stage, one in workflow.stages.items() if name in one.publishes],
        }
    return found


def _bounds(given: Hyperparameter) -> dict[str, Any]:
    return {
        "type": given.type,
        "default": given.default,
        "low": given.low,
        "high": given.high,
        "log": given.log,
        "step": given.step,
        "choices": None if given.choices is None else list(given.choices),
        "description": given.description,
    }


# --- as text --------------------------------------------------------------------------------------


def _lines(document: dict[str, Any]) -> Iterator[str]:
    known: dict[str, dict[str, Any]] = document["hyperparameters"]
    whose = document["run"] or document["workflow"]
    if not known:
        yield f"{whose} has no hyperparameters; they stand under `hyperparameters:` in the workflow file"
        return
    columns = ("name", "type", "value", "from", "allowed", "default", "description")
    rows = [
        (
            f"hp.{name}",
            one["type"],
            "(none)" if one["value"] is None else shown(one["value"]),
            _origin(one),
            _allowed(one),
            shown(one["default"]),
            one["description"],
        )
        for name, one in known.items()
    ]
    yield from render(Table(columns, rows, {}), width=NARROW)
    yield from _reads(known)
    yield from searches_lines(document["searches"])
    for one in document["published"]:
        yield f"{one['stage']}/{one['task']} published hp.{one['name']} = {shown(one['value'])}"
    for file in document["unreadable"]:
        yield f"cannot be read, and left alone: {file}"


def _origin(one: dict[str, Any]) -> str:
    if one["origin"] is None:
        return "a search, or --set"
    return "default" if one["origin"] == "default" else one["source"] or one["origin"]


def _reads(known: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """A line a stage that reads, a search that sets, a stage that publishes."""
    for verb, key in (("reads", "read_by"), ("sets", "searched_by"), ("publishes", "published_by")):
        for who in dict.fromkeys(stage for one in known.values() for stage in one[key]):
            yield f"{who} {verb} {', '.join(f'hp.{name}' for name, one in known.items() if who in one[key])}"


def _allowed(one: dict[str, Any]) -> str:
    if one["choices"] is not None:
        return " | ".join(shown(choice) for choice in one["choices"])
    low, high = one["low"], one["high"]
    if low is None and high is None:
        return ""
    bounds = f"{'…' if low is None else shown(low)} to {'…' if high is None else shown(high)}"
    return f"{bounds}, log" if one["log"] else bounds
