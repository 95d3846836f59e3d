"""`diel validate`: checks a workflow file and tells all that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from diel.check import check
from diel.cli.options import plan_options, runs_option
from diel.errors import Problem, SpecError, UsageError
from diel.paths import runs_dir
from diel.plan import Plan, make_plan
from diel.site import find_site


@click.command("validate")
@plan_options
@runs_option
def command(
    file: Path,
    settings: tuple[str, ...],
    params_files: tuple[Path, ...],
    site: str | None,
    as_json: bool,
    runs: Path | None,
) -> int:
    """Check a workflow file, and tell all that is wrong with file, line and column.

    Nothing is run. The exit code is 0 for a good file and 2 for one that is wrong.
    """
    make = partial(_plan, file, settings, params_files, site, runs)
    if not as_json:
        click.echo(f"{file}: good: {_size(make())}")
        return 0
    document, code = _document(file, make)
    click.echo(json.dumps(document))
    return code


def _plan(
    file: Path,
    settings: tuple[str, ...],
    params_files: tuple[Path, ...],
    site: str | None,
    runs: Path | None,
) -> Plan:
    checked = check(file, settings, params_files, runs=runs_dir(runs))
    return make_plan(checked, find_site(site, file.parent))


def _document(file: Path, make: Callable[[], Plan]) -> tuple[dict[str, Any], int]:
    """What `--json` prints, and the exit code."""
    try:
        plan = make()
    except UsageError as error:
        problems = error.problems if isinstance(error, SpecError) else [_problem(file, error)]
        found = {"valid": False, "file": str(file), "problems": [asdict(problem) for problem in problems]}
        return found, error.exit_code
    return {
        "valid": True,
        "file": str(file),
        "problems": [],
        "workflow": plan.workflow.name,
        "stages": len(plan.stages),
        "tasks": plan.tasks,
        "tasks_known": known_tasks(plan),
    }, 0


def _problem(file: Path, error: UsageError) -> Problem:
    """An error of the command line, which has no place in the file."""
    message, _, hint = str(error).partition("\n    ")
    return Problem(str(file), 1, 1, "", message, hint)


def _size(plan: Plan) -> str:
    stages = len(plan.stages)
    return f"{stages} stage{'s' if stages != 1 else ''}, {tasks_text(plan)}"


def known_tasks(plan: Plan) -> int:
    """The tasks that can be counted before the run."""
    return sum(stage.tasks or 0 for stage in plan.stages.values())


def tasks_text(plan: Plan) -> str:
    """How many tasks there are: `96+… tasks` where only the run will tell the rest."""
    known = known_tasks(plan)
    if plan.tasks is None:
        return f"{known:,}+… tasks"
    return f"{'up to ' if plan.may_end_early else ''}{known:,} task{'s' if known != 1 else ''}"
