"""`diel resume`: goes on with a run whose controller is gone, or that failed."""

from __future__ import annotations

from pathlib import Path

import click

from diel.cli.options import run_argument, runs_option
from diel.cli.progress import drive
from diel.controller.start import take_over
from diel.paths import runs_dir
from diel.runs import find_run


@click.command("resume")
@run_argument
@runs_option
@click.option("-q", "--quiet", is_flag=True, help="Show no progress; failures and the end alone.")
def command(run: str, runs: Path | None, quiet: bool) -> int:
    """Go on with a run that was interrupted, cancelled or failed.

    What has a result is not run again; what failed or was skipped is tried anew.
    """
    return drive(take_over(find_run(runs_dir(runs), run)), quiet=quiet)
