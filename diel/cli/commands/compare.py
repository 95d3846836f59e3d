"""`diel compare`: what differs between two runs, and whether it is more than scatter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from diel.cli.options import json_option, output_option, put, runs_option
from diel.cli.target import complete_run
from diel.comparison.comparison import compare
from diel.comparison.lines import comparison_document, comparison_lines, slower_text
from diel.errors import UsageError
from diel.project.runs import find_run
from diel.results import RunReader


class Share(click.ParamType[float]):
    """An option such as `20%` or `0.2`, as a share."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        try:
            share = float(value[:-1]) / 100 if value.endswith("%") else float(value)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1000:
            self.fail(f"expected a share such as 20% or 0.2, found '{value}'", param, context)
        return share


@click.command("compare")
@click.argument("first", shell_complete=complete_run)
@click.argument("second", default="last", shell_complete=complete_run)
@runs_option
@json_option
@output_option
@click.option(
    "--fail-slower",
    type=Share(),
    metavar="SHARE",
    help="Exit with 1 if a stage became slower by more than this, and that is not scatter.",
)
def command(
    first: str, second: str, runs: Path, as_json: bool, fail_slower: float | None, output: Path | None
) -> int:
    """The second is the last run if it is left out. Compared are hyperparameters, versions,
    definitions of stages, times of tasks, and results.

    Tasks at the same points are compared pair by pair, by Wilcoxon's signed ranks; if the runs share few
    points, all with all, by the sum of ranks. The ratio of times has an interval of 95 %. p is the
    probability that tasks scatter as much by themselves: as those of these runs do, not as days do.
    """
    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output}: a comparison is printed, or a page: -o compare.html")
    found = compare(RunReader(find_run(runs, first)), RunReader(find_run(runs, second)))
    slower = "" if fail_slower is None else slower_text(found, fail_slower)
    if output is not None:
        from diel.page.comparison import comparison_page  # here: only for a page

        put(comparison_page(found).removesuffix("\n"), output)
        click.echo(f"{output}: {found.names[0]} and {found.names[1]}")
    elif as_json:
        click.echo(json.dumps(comparison_document(found)))
    else:
        click.echo("\n".join(comparison_lines(found)))
    if slower:
        click.echo(slower, err=True)
    return 1 if slower else 0
