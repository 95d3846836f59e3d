"""`diel compare`: what differs between two runs, and whether it is more than scatter."""

from contextlib import suppress
from pathlib import Path

import click

from diel.base.errors import UsageError, counted
from diel.cli.options import Output, json_option, page_option, put_page, runs_option
from diel.cli.target import complete_run
from diel.observe.comparison.comparison import compare, comparison_document, comparison_lines, slower_text
from diel.observe.comparison.trend import read_trend, trend_document, trend_lines, trend_table
from diel.observe.results import RunReader
from diel.store.project.runs import find_run
from diel.store.table import csv_text
from diel.workflow.load import load


def share(text: str) -> float:
    """Return the share of an option such as `20%` or `0.2`."""
    with suppress(ValueError):
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        if 0 <= number <= 1000:
            return number
    raise click.BadParameter(f"expected a share such as 20% or 0.2, found '{text}'")


@click.command("compare")
@click.argument("first", shell_complete=complete_run)
@click.argument("second", default="last", shell_complete=complete_run)
@runs_option
@json_option
@page_option("comparison", "compare.html")
@click.option(
    "--fail-slower",
    type=share,
    metavar="SHARE",
    help="Exit with 1 if a stage became slower by more than this, and that is not scatter.",
)
def command(
    first: str, second: str, runs: Path, out: Output, fail_slower: float | None, output: Path | None
) -> int:
    """Take the last run if the second is left out. Compared are hyperparameters, versions,
    definitions of stages, times of tasks, and results.

    Tasks at the same points are compared pair by pair, by Wilcoxon's signed ranks; if the runs share few
    points, all with all, by the sum of ranks. The ratio of times has an interval of 95 %. p is the
    probability that tasks scatter as much by themselves: as those of these runs do, not as days do.
    """
    comparison = compare(RunReader(find_run(runs, first)), RunReader(find_run(runs, second)))
    slower = "" if fail_slower is None else slower_text(comparison, fail_slower)
    if output is not None:
        from diel.ui.page.comparison import comparison_page  # here: only for a page

        put_page(comparison_page(comparison), output, f"{comparison.names[0]} and {comparison.names[1]}")
    else:
        out.show(lambda: comparison_document(comparison), comparison_lines(comparison))
    if slower:
        click.echo(slower, err=True)
    return 1 if slower else 0


@click.command("trend")
@click.argument("workflow", required=False)
@click.argument("columns", nargs=-1, metavar="[STAGE|STAGE.VALUE]...")
@runs_option
@json_option
@page_option("trend", "trend.html")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a row for each run.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N runs.")
@click.option("--bench", is_flag=True, help="Only what the modules bench.* measured; of `bench` if no other.")
def trend(
    workflow: str | None,
    columns: tuple[str, ...],
    runs: Path,
    out: Output,
    as_csv: bool,
    last: int | None,
    output: Path | None,
    bench: bool,
) -> None:
    """For each stage the time of its median task, and each number that its tasks made: by point if there are
    few, else the median one. What came from the cache counts in the run that computed it.

    \b
        diel trend melt                       all runs of the workflow `melt`; its file does, too
        diel trend melt train.loss            one result
        diel trend --bench                    kernel, collective and I/O of the machine, each for itself
        diel trend melt --csv > melt.csv      for other programs

    A last value beyond the scatter is more than three standard deviations from the median of those before it.
    """
    if out.as_json + as_csv + (output is not None) > 1:
        raise UsageError("--csv, --json and -o are three ways to put it: choose one")
    if workflow is None and not bench:
        raise UsageError("which workflow? `diel trend WORKFLOW`; `diel list` shows those that have runs")
    if workflow is not None and workflow.endswith((".yaml", ".yml")):
        workflow = load(Path(workflow)).spec.name
    try:
        trend = read_trend(runs, workflow or "bench", columns, last, bench=bench)
    except UsageError as error:
        if workflow is None and "no runs of" in str(error):
            raise UsageError(f"{error}\n    {_HOW}") from error
        raise
    if output is not None:
        from diel.ui.page.comparison import trend_page  # here: only for a page

        put_page(trend_page(trend), output, f"{counted(len(trend.runs), 'run')} of {trend.workflow}")
    elif as_csv:
        click.echo(csv_text(trend_table(trend)), nl=False)
    else:
        out.show(lambda: trend_document(trend), trend_lines(trend))


_HOW = "`diel init --from bench DIR` makes the workflow, `diel run --no-cache DIR/bench.yaml` measures"
