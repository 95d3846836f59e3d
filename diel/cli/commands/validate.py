"""`diel validate`: what is wrong in a workflow file."""

from __future__ import annotations

from typing import Unpack

import click

from diel.check.remarks import column_lines, column_types, warnings
from diel.cli.options import Output, WorkflowOptions, json_option, workflow_options
from diel.errors import Problem, SpecError, UsageError, counted
from diel.plan import Plan, prepare


@click.command("validate")
@workflow_options()
@json_option
def command(out: Output, **options: Unpack[WorkflowOptions]) -> int:
    """Give the file, line and column of each mistake. Nothing is run. The exit code is 0 for a good file and
    2 for a wrong one.
    """
    file = str(options["file"])
    try:
        plan = prepare(**options)
    except UsageError as error:
        if not out.as_json:
            raise
        message, _, hint = str(error).partition("\n    ")  # of the command line: it has no place in the file
        own = [Problem(file, 1, 1, "", message, hint)]
        problems = error.problems if isinstance(error, SpecError) else own
        wrong = [problem._asdict() for problem in problems]
        out.show(lambda: {"valid": False, "file": file, "problems": wrong}, ())
        return error.exit_code
    remarks = list(warnings(plan.checked, options["runs"]))
    for problem in () if out.as_json else remarks:
        click.echo(f"warning: {problem}", err=True)
    lines = [f"{file}: good: {counted(len(plan.stages), 'stage')}, {tasks_text(plan)}"]
    lines += [f"    {line}" for line in column_lines(plan.checked)]
    if unread := sorted({module.reference for module in plan.modules.values() if not module.digest}):
        lines.append(f"    read only where their packages are: {', '.join(unread)}")
    document = {
        "valid": True,
        "file": file,
        "problems": [],
        "workflow": plan.workflow.name,
        "stages": len(plan.stages),
        "tasks": plan.tasks,
        "tasks_known": _known_tasks(plan),
    }
    more = {"columns": column_types(plan.checked), "warnings": [problem._asdict() for problem in remarks]}
    out.show(lambda: document | more, lines)
    return 0


def _known_tasks(plan: Plan) -> int:
    return sum(stage.tasks or 0 for stage in plan.stages.values())


def tasks_text(plan: Plan) -> str:
    """Count the tasks: `96+… tasks` if only the run will show the rest."""
    number = _known_tasks(plan)
    if plan.tasks is None:
        return f"{number:,}+… tasks"
    return f"{'up to ' if plan.may_end_early else ''}{counted(number, 'task')}"
