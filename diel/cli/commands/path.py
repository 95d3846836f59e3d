"""`diel path`: the directory of a task, or the path of what it made."""

from __future__ import annotations

from pathlib import Path

import click

from diel.cli.chosen import one_task
from diel.cli.options import runs_option
from diel.cli.target import complete_task, run_and_rest, targets
from diel.errors import DielError, UsageError, did_you_mean
from diel.journal.snapshot import read_run
from diel.paths import RunPaths
from diel.results.printed import find_output


@click.command("path")
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="[RUN] TASK [NAME=VALUE]... [OUTPUT]",
    shell_complete=complete_task,
)
@runs_option
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt; the last if not given.")
@click.option("--output", metavar="OUTPUT", help="The path of this output, not the directory.")
def command(words: tuple[str, ...], runs: Path, attempt: int | None, output: str | None) -> int:
    """It is one line, for scripts. That of a cached task is in the run that computed it.

    \b
        cd "$(diel path simulate depth=2.5 seed=1)"
        diel path last simulate/3 --attempt 1
        diel path train/3 model
    """
    paths, rest = run_and_rest(runs, words)
    groups = targets(rest)
    if len(groups) == 2 and output is None and not groups[1].at:
        output = groups[1].word
        rest = tuple(word for word in rest if word != output)
    reader = read_run(paths)
    stage, index = one_task(reader, rest, f"diel path {paths.run_id} STAGE/INDEX [OUTPUT]")
    if output is not None and attempt is not None:
        raise UsageError("an output is that of the attempt that succeeded: give --attempt or an output")
    if output is not None:
        click.echo(_output(paths, stage, index, output))
        return 0
    found = find_output(reader, stage, index, attempt)
    if not found.folder.is_dir():
        raise DielError(f"{found.task} wrote nothing and printed nothing, so it has no directory")
    click.echo(found.folder)
    return 0


def _output(paths: RunPaths, stage: str, index: int, output: str) -> str:
    """The path of an output; of several files, one a line. Raises UsageError where it is no file."""
    # These read results, which a directory alone does not need.
    from diel.artifacts import Artifact
    from diel.results import RunReader
    from diel.tasks.results import output_of, outputs_of  # with the results

    run = RunReader(paths)
    record, task = run.record(stage, index), run.named(f"{stage}/{index}")
    if record is None:
        why = f"`diel explain {paths.run_id} {stage}/{index}` says why"
        raise UsageError(f"{task} has no result; {why}")
    made = outputs_of(record)
    if output not in made:
        hint = did_you_mean(output, made) or f"it made: {', '.join(made) or 'nothing'}"
        raise UsageError(f"{task} made no '{output}'; {hint}")
    value = output_of(record, output, paths.root)
    files = value if isinstance(value, list) and value else [value]
    if not all(type(file) is Artifact for file in files):
        raise UsageError(f"'{output}' is a value, not a file: `diel results {stage}.{output}` prints it")
    if run.is_dropped(stage, output, index):
        raise DielError(
            f"'{output}' of {task} was deleted after use (`keep: false`, or `diel clean --intermediate`)"
        )
    return "\n".join(files)
