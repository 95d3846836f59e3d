"""`diel trend`: results and times of all runs of a workflow, by date."""

from __future__ import annotations

import io
import json
from pathlib import Path

import click

from diel.cli.options import json_option, output_option, put, runs_option
from diel.comparison.trend import read_trend
from diel.comparison.trend_lines import trend_document, trend_lines, trend_table
from diel.errors import UsageError, counted
from diel.load import load
from diel.table import write_csv


@click.command("trend")
@click.argument("workflow", required=False)
@click.argument("wanted", nargs=-1, metavar="[STAGE|STAGE.VALUE]...")
@runs_option
@json_option
@output_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a row for each run.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N runs.")
@click.option("--bench", is_flag=True, help="Only what the modules bench.* measured; of `bench` if no other.")
def command(
    workflow: str | None,
    wanted: tuple[str, ...],
    runs: Path,
    as_json: bool,
    as_csv: bool,
    last: int | None,
    output: Path | None,
    bench: bool,
) -> int:
    """For each stage the time of its median task, and each number that its tasks made: by point if there are
    few, else the median one. What came from the cache counts in the run that computed it.

    \b
        diel trend melt                       all runs of the workflow `melt`; its file does, too
        diel trend melt train.loss            one result
        diel trend --bench                    kernel, collective and I/O of the machine, each for itself
        diel trend melt --csv > melt.csv      for other programs

    A last value beyond the scatter is more than three standard deviations from the median of those before it.
    """
    if as_json + as_csv + (output is not None) > 1:
        raise UsageError("--csv, --json and -o are three ways to put it: choose one")
    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output}: a trend is printed, or a page: -o trend.html")
    if workflow is None and not bench:
        raise UsageError("which workflow? `diel trend WORKFLOW`; `diel list` shows those that have runs")
    if workflow is not None and workflow.endswith((".yaml", ".yml")):
        workflow = load(Path(workflow)).spec.name
    try:
        trend = read_trend(runs, workflow or "bench", wanted, last, bench=bench)
    except UsageError as error:
        if workflow is None and "no runs of" in str(error):
            raise UsageError(f"{error}\n    {_HOW}") from error
        raise
    if output is not None:
        from diel.page.trend import trend_page  # here: only for a page

        put(trend_page(trend).removesuffix("\n"), output)
        click.echo(f"{output}: {counted(len(trend.runs), 'run')} of {trend.workflow}")
    elif as_json:
        click.echo(json.dumps(trend_document(trend)))
    elif as_csv:
        file = io.StringIO()
        write_csv(trend_table(trend), file)
        click.echo(file.getvalue(), nl=False)
    else:
        click.echo("\n".join(trend_lines(trend)))
    return 0


_HOW = "`diel init --from bench DIR` makes the workflow, `diel run --no-cache DIR/bench.yaml` measures"
