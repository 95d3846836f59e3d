"""`diel validate`: checks a workflow file and says all that is wrong."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from diel.cli.options import json_option
from diel.cli.wanted import SITE, Wanted, workflow_options
from diel.errors import Problem, SpecError, UsageError
from diel.plan import Plan


@click.command("validate")
@workflow_options(SITE)
@json_option
def command(wanted: Wanted, as_json: bool) -> int:
    """Gives file, line and column of each mistake. Nothing is run. The exit code is 0 for a good file and
    2 for one that is wrong.
    """
    if not as_json:
        click.echo(f"{wanted.file}: good: {_size(wanted.plan())}")
        return 0
    document, code = _document(wanted)
    click.echo(json.dumps(document))
    return code


def _document(wanted: Wanted) -> tuple[dict[str, Any], int]:
    """What `--json` prints, and the exit code."""
    file = wanted.file
    try:
        plan = wanted.plan()
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
