"""`diel run`: runs a workflow in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from diel.blocks.script import NeverRuns
from diel.cli.options import anew_options, workflow_options
from diel.controller.start import discard, start
from diel.plan import prepare
from diel.terminal.progress import drive


@click.command("run")
@workflow_options("Where to run; `local` if neither this nor DIEL_SITE is given.")
@anew_options
@click.option("-q", "--quiet", is_flag=True, help="Show no progress, only failures and the end.")
def command(
    file: Path,
    settings: tuple[str, ...],
    params_files: tuple[Path, ...],
    site: str | None,
    runs: Path,
    begin_at: str | None,
    no_cache: bool,
    quiet: bool,
) -> int:
    """Results of earlier runs are reused if nothing that they depend on has changed."""
    fresh = not runs.exists()
    plan = prepare(file, settings, params_files, site, runs)
    controller = start(plan, runs, use_cache=not no_cache, begin_at=begin_at)
    try:
        return drive(controller, quiet=quiet)
    except NeverRuns:
        discard(controller.paths, fresh=fresh)
        raise
