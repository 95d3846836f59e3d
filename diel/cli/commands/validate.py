"""`diel validate`: checks a workflow file and reports all that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import click

from diel.cli.options import json_option, workflow_options
from diel.errors import Problem, SpecError, UsageError, counted
from diel.plan import Plan, prepare


@click.command("validate")
@workflow_options()
@json_option
def command(
    file: Path,
    settings: tuple[str, ...],
    params_files: tuple[Path, ...],
    site: str | None,
    runs: Path,
    as_json: bool,
) -> int:
    """Gives the file, line and column of each mistake. Nothing is run. The exit code is 0 for a good file and
    2 for a wrong one.
    """
    try:
        plan = prepare(file, settings, params_files, site, runs)
    except UsageError as error:
        if not as_json:
            raise
        problems = error.problems if isinstance(error, SpecError) else [_problem(file, error)]
        found = {"valid": False, "file": str(file), "problems": [problem._asdict() for problem in problems]}
        click.echo(json.dumps(found))
        return error.exit_code
    if not as_json:
        click.echo(f"{file}: good: {counted(len(plan.stages), 'stage')}, {tasks_text(plan)}")
        return 0
    document = {
        "valid": True,
        "file": str(file),
        "problems": [],
        "workflow": plan.workflow.name,
        "stages": len(plan.stages),
        "tasks": plan.tasks,
        "tasks_known": _known_tasks(plan),
    }
    click.echo(json.dumps(document))
    return 0


def _problem(file: Path, error: UsageError) -> Problem:
    """An error of the command line, which has no place in the file."""
    message, _, hint = str(error).partition("\n    ")
    return Problem(str(file), 1, 1, "", message, hint)


def _known_tasks(plan: Plan) -> int:
    return sum(stage.tasks or 0 for stage in plan.stages.values())


def tasks_text(plan: Plan) -> str:
    """How many tasks there are: `96+… tasks` if only the run will show the rest."""
    known = _known_tasks(plan)
    if plan.tasks is None:
        return f"{known:,}+… tasks"
    return f"{'up to ' if plan.may_end_early else ''}{counted(known, 'task')}"
