"""`diel run`: runs a workflow in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from diel.cli.options import runs_option, settings_options
from diel.cli.progress import drive
from diel.controller.start import prepare, start
from diel.paths import runs_dir


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@settings_options
@runs_option
@click.option(
    "--site", metavar="NAME", help="Where to run; `local` where neither this nor DIEL_SITE is given."
)
@click.option("--from", "begin_at", metavar="STAGE", help="Compute this stage and all after it anew.")
@click.option("--no-cache", is_flag=True, help="Use no result of an earlier run.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress; failures and the end alone.")
def command(
    file: Path,
    settings: tuple[str, ...],
    params_files: tuple[Path, ...],
    runs: Path | None,
    site: str | None,
    begin_at: str | None,
    no_cache: bool,
    quiet: bool,
) -> int:
    """Run a workflow here, and watch it.

    Results of earlier runs are used where nothing that they depend on has changed.
    """
    plan = prepare(file, settings, params_files, site, runs_dir(runs))
    controller = start(
        plan, runs_dir(runs), settings, params_files, use_cache=not no_cache, begin_at=begin_at
    )
    return drive(controller, quiet=quiet)
