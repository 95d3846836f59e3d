"""What a run made: `results`, a table; `report`, a text; `export` for other tools; `verify` looks again."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from diel.base.errors import DielError, UsageError, counted
from diel.base.files import reason
from diel.base.paths import RunPaths
from diel.cli.options import PAGES, PATH, Output, json_option, output_option, put, put_page, runs_option
from diel.cli.target import (
    choose,
    complete_run,
    point_of,
    run_and_rest,
    run_argument,
    targets,
    words_argument,
)
from diel.export import TOOLS, take_out
from diel.observe.results import RunReader, list_metrics, list_trials, list_usage, make_table, read, summarize
from diel.observe.results.rows import stage_and_output
from diel.store.artifacts import differences, files_of, text_of
from diel.store.project.runs import find_run
from diel.store.table import Listing, csv_text, render, write_parquet
from diel.tasks.results import artifact_home


@click.command("results")
@words_argument("[RUN] [STAGE.VALUE]... [NAME=VALUE]...")
@runs_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@json_option
@click.option("--parquet", type=PATH, metavar="FILE", help="Write a Parquet file.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N rows.")
@click.option("--metrics", is_flag=True, help="What a stage's tasks reported while they ran, step by step.")
@click.option("--usage", is_flag=True, help="What each attempt used: processor time, memory, bytes.")
@click.option("--trials", is_flag=True, help="Every trial of a search: its state, scores and last step.")
def command(
    words: tuple[str, ...],
    runs: Path,
    as_csv: bool,
    out: Output,
    parquet: Path | None,
    limit: int | None,
    **listings: bool,
) -> None:
    """Each axis parameter and each output is a column.

    \b
        diel results                              what the last run has
        diel results last train.loss              a row a task of `train`
        diel results last train                   all that `train` makes
        diel results last train.loss test.score   joined along the axes they share
        diel results train.loss depth=2.5         only the tasks with that depth
        diel results train --metrics              what its tasks reported, a row a value
        diel results train --usage                what its attempts used, a row an attempt
        diel results last trial --trials          every trial of the search `trial`, whatever became of it

    A file is shown by its path. Points without any result are left out, and counted on stderr.
    """
    kinds = [kind for kind, chosen in listings.items() if chosen]
    if len(kinds) > 1:
        raise UsageError(f"--{' and --'.join(kinds)} are tables of their own: choose one")
    if as_csv + out.as_json + (parquet is not None) > 1:
        raise UsageError("--csv, --json and --parquet are three ways to print: choose one")
    paths, named = run_and_rest(runs, words)
    groups = targets(named)
    names = [target.word.partition("/")[0] for target in groups]

    def listed(run: RunReader) -> Listing:
        at: dict[str, Any] = {}
        for name, value in (chosen for target in groups for chosen in point_of(run, target).items()):
            choose(at, name, value)
        if kinds:
            return _LISTINGS[kinds[0]](run, names, limit, at)
        if not names:
            return summarize(run)
        return (_empty(run, names) if out.as_json else None) or make_table(run, names, limit, at)

    table, flaws = read(paths, listed)
    missing = [*table.missing.values(), *flaws]
    if parquet is not None:
        for note in write_parquet(table, parquet):
            click.echo(f"{parquet}: {note}", err=True)
        click.echo(f"{parquet}: {counted(len(table.rows), 'row')} of {', '.join(table.columns)}")
    elif as_csv:
        click.echo(csv_text(table).encode("utf-8", "surrogateescape"), nl=False)
    else:
        out.show(lambda: _document(paths, table, flaws), _lines(paths, table, summary=not (names or kinds)))
    for text in missing:
        click.echo(text, err=True)


def _document(paths: RunPaths, table: Listing, flaws: Sequence[str]) -> dict[str, Any]:
    return {
        "run": paths.run_id,
        "columns": table.columns,
        "rows": [*table.mappings()],
        "missing": {**table.missing, **({"journal": "; ".join(flaws)} if flaws else {})},
        "audits": table.audits,
    }


def _lines(paths: RunPaths, table: Listing, *, summary: bool) -> Iterator[str]:
    if summary and not table.rows:
        state = RunReader(paths).state
        yield f"{paths.run_id} ({state}) has no results yet; `diel status` shows its state"
        return
    yield from render(table)
    if summary:
        yield f"\nsee one with `diel results {paths.run_id} {table.rows[0][0]}`"


def _metrics(run: RunReader, names: Sequence[str], limit: int | None, at: Mapping[str, str]) -> Listing:
    if len(names) != 1:
        raise UsageError("--metrics are those of one stage: diel results [RUN] STAGE --metrics")
    return list_metrics(run, names[0], limit, at)


def _trials(run: RunReader, names: Sequence[str], limit: int | None, at: Mapping[str, str]) -> Listing:
    if len(names) > 1 or at:
        raise UsageError("--trials are those of one search: diel results [RUN] [AXIS] --trials")
    return list_trials(run, names[0] if names else None, limit)


_LISTINGS: Mapping[str, Callable[[RunReader, Sequence[str], int | None, Mapping[str, str]], Listing]] = {
    "metrics": _metrics,
    "usage": list_usage,
    "trials": _trials,
}


def _empty(run: RunReader, names: Sequence[str]) -> Listing | None:
    """Return a table without rows if stages have no result yet: a program can read its JSON."""
    stages = [stage_and_output(word, run.workflow.stages)[0] for word in names]
    if not all(stage in run.workflow.stages for stage in stages):
        return None  # raises what is wrong with it
    missing = {stage: f"'{stage}' has no results yet" for stage in stages}
    if any(run.records(stage) for stage in missing):
        return None
    parameters = (name for stage in stages for name in run.parameters(stage))
    searched = (f"hp.{name}" for stage in stages for name in run.searched(stage))
    columns = tuple(dict.fromkeys([*parameters, *searched, *(word for word in names if word not in stages)]))
    return Listing(columns, [], missing)


@click.command("report")
@run_argument
@output_option
@click.option("--public", is_flag=True, help="Leave out host, user and paths; only for a page.")
@runs_option
def report(run: str, output: Path | None, public: bool, runs: Path) -> None:
    """Its state and stages, the best trial or the Pareto front of each search, the course of each loop, what
    failed, and where the results are, as Markdown; it goes to stdout if no file is named.

    \b
        diel report -o run.html              a page with charts, in one file that needs no network
        diel report -o run.html --public     the same to hand on: without host, user and paths
    """
    kind = "" if output is None else output.suffix.lower()
    if kind not in ("", ".md", ".markdown", ".txt", *PAGES):
        other = "-o run.html makes a page, -o report.md Markdown"
        raise UsageError(f"{output}: a report is a page or Markdown, and not {kind}: {other}")
    if public and kind not in PAGES:
        raise UsageError("--public is for a page: diel report -o run.html --public")
    paths = find_run(runs, run)
    from diel.ui.page.panel import RunView  # what panels need, a table does not

    if output is not None and kind in PAGES:
        from diel.ui.page.document import page  # a page alone needs a style and scripts

        about = f"the page of {paths.run_id}; open it in a browser"
        put_page(page(RunView(paths, public=public)), output, about)
        return
    from diel.ui.page.document import report as markdown  # as above

    put(markdown(RunView(paths)).rstrip("\n"), output)
    if output is not None:
        click.echo(f"{output}: the report of {paths.run_id}")


@click.command("export")
@click.argument("words", nargs=-1, metavar="[RUN] DIR", shell_complete=complete_run)
@click.option("--to", "tool", type=click.Choice([*TOOLS]), required=True, help="The tool that is to read it.")
@runs_option
def export(words: tuple[str, ...], tool: str, runs: Path) -> None:
    """By the tools' own libraries, from the files of the run alone: while it runs, or after any kill.

    \b
        diel export last --to optuna shared            shared/optuna.db
        diel export last --to mlflow shared            shared/mlflow.db, mlflow-artifacts
        diel export last --to tensorboard shared       shared/tensorboard/STAGE/INDEX
        diel export last --to rocrate crate            crate/ro-crate-metadata.json, and files
        diel export last --to wfformat shared          shared/wfformat.json

    DIR is made, or what it lacks is put into it. Nothing that is there is changed, and nothing half-made
    is left there.
    """
    if not 1 <= len(words) <= 2:
        raise UsageError(f"expected a run and a directory to write to: diel export last --to {tool} DIR")
    folder = Path(words[-1])
    paths = find_run(runs, words[0] if len(words) == 2 else "last")
    try:
        notes, flaws = read(paths, lambda run: take_out(run, tool, folder))
    except (FileExistsError, NotADirectoryError) as error:
        hint = "name another directory; nothing was written"
        raise UsageError(f"{error.filename} is in the way: {hint}") from error
    except OSError as error:
        if error.filename != os.path.abspath(folder):
            raise
        why = f"cannot make or fill the directory {folder}: {reason(error)}"
        raise DielError(f"{why}; name another directory; nothing was written") from error
    click.echo(f"{folder / TOOLS[tool].file}: {paths.run_id}")
    for line in (*notes[:-1], *flaws, notes[-1]):
        click.echo(f"  {line}")


class ComparedFile(NamedTuple):
    """A file or directory of a run's results, as it is now."""

    output: str
    path: str
    changes: list[str]


@click.command("verify")
@run_argument
@runs_option
@json_option
def verify(run: str, runs: Path, out: Output) -> int:
    """Read all files that the run's results hold, those that came from the cache too, and compare their
    content with the digests of its journal. What was deleted after use is left out. The exit code is 1 where
    anything differs.
    """
    paths = find_run(runs, run)
    checked = list(_compared(RunReader(paths)))
    wrong = [output for output in checked if output.changes]
    rows = [{"output": output.output, "path": output.path, "differences": output.changes} for output in wrong]
    lines = [f"{output.output}: {output.path}: {text_of(output.changes)}" for output in wrong]
    how = f"{len(wrong)} differ" if wrong else "all as they were made"
    lines.append(f"{paths.run_id}: {counted(len(checked), 'output')} compared, {how}")
    next_step = (
        "no other run takes these from the cache: `diel run` makes them again; "
        f"`diel resume {paths.run_id}` does where tasks have yet to read them"
    )
    notes = [next_step] if wrong and not out.as_json else []
    out.show(lambda: {"run": paths.run_id, "compared": len(checked), "differ": rows}, lines, notes)
    return 1 if wrong else 0


def _compared(run: RunReader) -> Iterator[ComparedFile]:
    for stage in run.workflow.stages:
        for index, record in sorted(run.records(stage).items()):
            home, entries = artifact_home(record, run.paths.root), record.get("artifacts", {})
            for name, entry in entries.items():
                for file in () if run.is_dropped(stage, name, index) else files_of(entry):
                    path = f"{home}/{file['path']}"
                    changes = differences(path, file["digest"], file.get("identity", ""), look=False)
                    yield ComparedFile(f"{stage}/{index}.{name}", path, changes)
