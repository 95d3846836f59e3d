"""`diel params`: the hyperparameters of a workflow or a run, and where their values come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from diel.cli.options import json_option, runs_option, settings_options
from diel.errors import UsageError
from diel.load import Document, load
from diel.paths import runs_dir
from diel.registry import Hyperparameters, resolve
from diel.results import Recorded
from diel.runs import find_run
from diel.spec import Hyperparameter
from diel.table import Table, render, shown

NARROW = 48


@click.command("params")
@click.argument("target", default="last", metavar="[FILE|RUN]")
@settings_options
@runs_option
@json_option
def command(
    target: str, settings: tuple[str, ...], params_files: tuple[Path, ...], runs: Path | None, as_json: bool
) -> int:
    """Show the hyperparameters of a workflow FILE or of a RUN: type, bounds, value, and where it is from."""
    document = _of_file(Path(target), settings, params_files) if _is_file(target) else None
    if document is None:
        if settings or params_files:
            raise UsageError("--set and --params go with a workflow file; a run has its values already")
        document = _of_run(runs_dir(runs), target)
    click.echo(json.dumps(document) if as_json else _text(document))
    return 0


def _is_file(target: str) -> bool:
    return target.endswith((".yaml", ".yml")) or Path(target).is_file()


def _of_file(path: Path, settings: tuple[str, ...], params_files: tuple[Path, ...]) -> dict[str, Any]:
    document = load(path)
    values: Hyperparameters = resolve(document, settings, params_files)
    return {
        "workflow": document.spec.name,
        "run": None,
        "hyperparameters": {
            name: {
                **_described(given),
                "value": known.value if (known := values.values.get(name)) is not None else None,
                "origin": known.origin if known is not None else None,
                "source": known.source if known is not None else "",
            }
            for name, given in document.spec.hyperparameters.items()
        },
    }


def _of_run(runs: Path, name: str) -> dict[str, Any]:
    run = Recorded(find_run(runs, name))
    values, origins = run.run_file.hyperparameters, run.run_file.origins
    return {
        "workflow": run.run_file.workflow,
        "run": run.paths.run_id,
        "hyperparameters": {
            name: {
                **_described(given),
                "value": values.get(name),
                "origin": origins.get(name),
                "source": _source(run, run.document, name, origins.get(name)),
            }
            for name, given in run.workflow.hyperparameters.items()
        },
    }


def _source(run: Recorded, document: Document, name: str, origin: str | None) -> str:
    """Where a run's value was written, as far as the run keeps it."""
    if origin == "default":
        place = document.problem(("hyperparameters", name, "default"), "")
        return f"{place.file}:{place.line}"
    if origin == "file":
        return ", ".join(run.run_file.params_files)
    told = [text for text in run.run_file.settings if text.partition("=")[0].strip() in (name, f"hp.{name}")]
    return f"--set {told[-1]}" if told else ""


def _described(given: Hyperparameter) -> dict[str, Any]:
    return {
        "type": given.type,
        "default": given.default,
        "low": given.low,
        "high": given.high,
        "log": given.log,
        "choices": None if given.choices is None else list(given.choices),
        "description": given.description,
    }


def _text(document: dict[str, Any]) -> str:
    known: dict[str, dict[str, Any]] = document["hyperparameters"]
    whose = document["run"] or document["workflow"]
    if not known:
        return f"{whose} has no hyperparameters; they stand under `hyperparameters:` in the workflow file"
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
    return "\n".join(render(Table(columns, rows, {}), width=NARROW))


def _origin(one: dict[str, Any]) -> str:
    if one["origin"] is None:
        return "a search, or --set"
    return "default" if one["origin"] == "default" else one["source"] or one["origin"]


def _allowed(one: dict[str, Any]) -> str:
    if one["choices"] is not None:
        return " | ".join(shown(choice) for choice in one["choices"])
    low, high = one["low"], one["high"]
    if low is None and high is None:
        return ""
    bounds = f"{'…' if low is None else shown(low)} to {'…' if high is None else shown(high)}"
    return f"{bounds}, log" if one["log"] else bounds
