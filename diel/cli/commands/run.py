"""`diel run`: runs a workflow in the foreground."""

from __future__ import annotations

from typing import Unpack

import click

from diel.blocks.script import NeverRuns
from diel.check.remarks import warnings
from diel.cli.options import (
    Asked,
    anew_options,
    dry_run_option,
    fail_fast_option,
    sized_option,
    workflow_options,
)
from diel.controller.start import discard, start
from diel.plan import prepare
from diel.project.run_file import Sizes
from diel.terminal.progress import drive


@click.command("run")
@workflow_options("Where to run; `local` if neither this nor DIEL_SITE is given.")
@anew_options
@fail_fast_option
@dry_run_option
@sized_option
@click.option("-q", "--quiet", is_flag=True, help="Show no progress, only failures and the end.")
def command(
    begin_at: str | None,
    no_cache: bool,
    fail_fast: bool,
    quiet: bool,
    dry_run: bool,
    sized_by: str | None,
    **asked: Unpack[Asked],
) -> int:
    """Results of earlier runs are reused if nothing that they depend on has changed."""
    fresh = not asked["runs"].exists()
    plan = prepare(**asked)
    sizes: Sizes = {}
    if sized_by is not None:
        from diel.cli.sizing import sized  # few runs are

        plan, sizes = sized(plan, sized_by, asked["runs"])
    if dry_run:
        from diel.cli.commands.plan import lines_of  # which a run does not need

        click.echo("\n".join(lines_of(plan)))
        return 0
    for problem in warnings(plan.checked, asked["runs"]):
        click.echo(f"warning: {problem}", err=True)
    controller = start(
        plan,
        asked["runs"],
        use_cache=not no_cache,
        begin_at=begin_at,
        fail_fast=fail_fast,
        sizes=sizes,
    )
    try:
        return drive(controller, quiet=quiet)
    except NeverRuns:
        discard(controller.paths, fresh=fresh)
        raise
