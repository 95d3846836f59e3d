"""`diel run`: runs a workflow in the foreground."""

from __future__ import annotations

from typing import Unpack

import click

from diel.blocks.script import NeverRuns
from diel.check.remarks import warnings
from diel.cli.commands.plan import plan_to_start
from diel.cli.options import Start, start_options, workflow_options
from diel.controller.start import discard, start
from diel.terminal.progress import drive


@click.command("run")
@workflow_options("Where to run; `local` if neither this nor DIEL_SITE is given.")
@start_options
@click.option("-q", "--quiet", is_flag=True, help="Show no progress, only failures and the end.")
def command(quiet: bool, **asked: Unpack[Start]) -> int:
    """Results of earlier runs are reused if nothing that they depend on has changed."""
    runs = asked["runs"]
    fresh = not runs.exists()
    plan, manner = plan_to_start(**asked)
    for problem in warnings(plan.checked, runs):
        click.echo(f"warning: {problem}", err=True)
    controller = start(plan, runs, **manner)
    try:
        return drive(controller, quiet=quiet)
    except NeverRuns:
        discard(controller.paths, fresh=fresh)
        raise
