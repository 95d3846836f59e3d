"""`diel validate`: checks a workflow file and reports all that is wrong."""

from __future__ import annotations

import json
from typing import Unpack

import click

from diel.check.remarks import column_lines, column_types, warnings
from diel.cli.options import Asked, json_option, workflow_options
from diel.errors import Problem, SpecError, UsageError, counted
from diel.plan import Plan, prepare


@click.command("validate")
@workflow_options()
@json_option
def command(as_json: bool, **asked: Unpack[Asked]) -> int:
    """Gives the file, line and column of each mistake. Nothing is run. The exit code is 0 for a good file and
    2 for a wrong one.
    """
    file = str(asked["file"])
    try:
        plan = prepare(**asked)
    except UsageError as error:
        if not as_json:
            raise
        problems = error.problems if isinstance(error, SpecError) else [_problem(file, error)]
        wrong = [problem._asdict() for problem in problems]
        click.echo(json.dumps({"valid": False, "file": file, "problems": wrong}))
        return error.exit_code
    remarks = list(warnings(plan.checked, asked["runs"]))
    stages, known = len(plan.stages), {"tasks": plan.tasks, "tasks_known": _known_tasks(plan)}
    document = {"valid": True, "file": file, "problems": [], "workflow": plan.workflow.name, "stages": stages}
    said = f"{file}: good: {counted(stages, 'stage')}, {tasks_text(plan)}"
    said = "".join([said, *(f"\n    {line}" for line in column_lines(plan.checked))])
    unread = sorted({module.reference for module in plan.modules.values() if not module.digest})
    if unread:
        said += f"\n    read only where their packages are: {', '.join(unread)}"
    if as_json:
        told = [problem._asdict() for problem in remarks]
        kinds = {"columns": column_types(plan.checked)}
        click.echo(json.dumps(document | known | kinds | {"warnings": told}))
        return 0
    for problem in remarks:
        click.echo(f"warning: {problem}", err=True)
    click.echo(said)
    return 0


def _problem(file: str, error: UsageError) -> Problem:
    """An error of the command line, which has no place in the file."""
    message, _, hint = str(error).partition("\n    ")
    return Problem(file, 1, 1, "", message, hint)


def _known_tasks(plan: Plan) -> int:
    return sum(stage.tasks or 0 for stage in plan.stages.values())


def tasks_text(plan: Plan) -> str:
    """How many tasks there are: `96+… tasks` if only the run will show the rest."""
    known = _known_tasks(plan)
    if plan.tasks is None:
        return f"{known:,}+… tasks"
    return f"{'up to ' if plan.may_end_early else ''}{counted(known, 'task')}"
