"""`diel params diff`: the hyperparameters in which two runs differ, or a run and a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from diel.cli.options import complete_run, json_option, runs_option
from diel.errors import UsageError
from diel.paths import runs_dir
from diel.project.runs import find_run
from diel.registry import Value, kept_values, read_current
from diel.results import Recorded
from diel.table import Table, render, shown

PROJECT = "project"
"""What a new run of the same workflow would have."""


@click.command("diff")
@click.argument("first", metavar="A", shell_complete=complete_run)
@click.argument("second", metavar="[B]", default=PROJECT, shell_complete=complete_run)
@runs_option
@json_option
def command(first: str, second: str, runs: Path | None, as_json: bool) -> int:
    """Show in which hyperparameters two runs differ, and where each value is from.

    `project`, which B is where it is not given, means what a new run of A's workflow would have.
    """
    place = runs_dir(runs)
    if first == PROJECT:
        first, second = second, first
    if first == PROJECT:
        raise UsageError("name a run to compare with the project: diel params diff RUN")
    run = Recorded(find_run(place, first))
    against = None if second == PROJECT else Recorded(find_run(place, second))
    a, b = run.paths.run_id, PROJECT if against is None else against.paths.run_id
    values = _of_project(place, run) if against is None else kept_values(against.run_file).values
    differences = _differences(kept_values(run.run_file).values, values)
    if as_json:
        click.echo(json.dumps({"a": a, "b": b, "differences": differences}))
    elif not differences:
        click.echo(f"{a} and {b} have the same hyperparameters")
    else:
        for line in render(_table(a, b, differences), width=60):
            click.echo(line)
    return 0


def _of_project(runs: Path, run: Recorded) -> dict[str, Value]:
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
            found[name] = {"a": None if a is None else asdict(a), "b": None if b is None else asdict(b)}
    return found


def _table(first: str, second: str, differences: Mapping[str, dict[str, Any]]) -> Table:
    rows = [
        (f"hp.{name}", *(cell for side in (both["a"], both["b"]) for cell in _cells(side)))
        for name, both in differences.items()
    ]
    return Table(("name", first, "from", second, "from"), rows, {})


def _cells(side: Mapping[str, Any] | None) -> tuple[str, str]:
    if side is None:
        return "(none)", ""
    return shown(side["value"]), "default" if side["origin"] == "default" else side["source"] or side[
        "origin"
    ]
