"""`diel report`: a short report of a run, in Markdown."""

from __future__ import annotations

from pathlib import Path

import click

from diel.cli.options import run_argument, runs_option
from diel.errors import DielError
from diel.paths import runs_dir
from diel.report import write_report
from diel.results import Recorded
from diel.runs import find_run


@click.command("report")
@run_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it to a file.")
@runs_option
def command(run: str, output: Path | None, runs: Path | None) -> int:
    """Write a short report of a run, in Markdown.

    How it stands, its stages, the best trial or the Pareto front of each search, the course of each
    loop, what failed, and where the results are. It goes to stdout where no file is named.
    """
    paths = find_run(runs_dir(runs), run)
    text = write_report(Recorded(paths))
    if output is None:
        click.echo(text, nl=False)
        return 0
    try:
        output.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise DielError(f"cannot write {output}: {error.strerror or error}") from error
    click.echo(f"{output}: the report of {paths.run_id}")
    return 0
