"""`diel run`: runs a workflow in the foreground."""

from __future__ import annotations

import click

from diel.blocks.script import NeverRuns
from diel.cli.wanted import Wanted, anew_options, workflow_options
from diel.controller.start import discard, start
from diel.terminal.progress import drive


@click.command("run")
@workflow_options("Where to run; `local` where neither this nor DIEL_SITE is given.")
@anew_options
@click.option("-q", "--quiet", is_flag=True, help="Show no progress; failures and the end alone.")
def command(wanted: Wanted, begin_at: str | None, no_cache: bool, quiet: bool) -> int:
    """Results of earlier runs are used where nothing that they depend on has changed."""
    fresh = not wanted.runs.exists()
    controller = start(
        wanted.plan(),
        wanted.runs,
        wanted.settings,
        wanted.params_files,
        use_cache=not no_cache,
        begin_at=begin_at,
    )
    try:
        return drive(controller, quiet=quiet)
    except NeverRuns:
        discard(controller.paths, fresh=fresh)
        raise
