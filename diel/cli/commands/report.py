"""`diel report`: a short report of a run, in Markdown."""

from __future__ import annotations

from pathlib import Path

import click

from diel.cli.options import output_option, put, runs_option
from diel.cli.target import run_argument
from diel.project.runs import find_run
from diel.report import write_report
from diel.results import Recorded


@click.command("report")
@run_argument
@output_option
@runs_option
def command(run: str, output: Path | None, runs: Path) -> int:
    """Its state and stages, the best trial or the Pareto front of each search, the course of each loop, what
    failed, and where the results are. It goes to stdout if no file is named.
    """
    paths = find_run(runs, run)
    put(write_report(Recorded(paths)).removesuffix("\n"), output)
    if output is not None:
        click.echo(f"{output}: the report of {paths.run_id}")
    return 0
