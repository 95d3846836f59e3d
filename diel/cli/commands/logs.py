"""`diel logs`: what a task printed."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import BinaryIO

import click

from diel.base.errors import DielError, UsageError, did_you_mean
from diel.base.paths import RunPaths
from diel.base.states import TaskState
from diel.cli.options import runs_option
from diel.cli.target import complete_task, named_tasks, one_task, run_and_rest, targets, words_argument
from diel.observe.results.printed import PRINTED, AttemptOutput, find_output
from diel.observe.status.columns import paint, printable
from diel.observe.status.run import fold_status
from diel.observe.status.stage import failure_lines
from diel.store.journal.segment import Reader
from diel.store.journal.snapshot import look_at, read_run

PAUSE = 0.2
"""Seconds between two looks at a followed task."""
CHUNK = 1 << 20


@click.command("logs")
@words_argument("[RUN] TASK [NAME=VALUE]...", complete_task, required=True)
@runs_option
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt; the last if not given.")
@click.option("--stdout", "kind", flag_value="stdout", help="Standard output only.")
@click.option("--stderr", "kind", flag_value="stderr", help="Standard error only.")
@click.option("--metrics", "kind", flag_value="metrics", help="The metrics it reported, as JSON lines.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing while the task runs.")
def command(words: tuple[str, ...], runs: Path, attempt: int | None, kind: str | None, follow: bool) -> None:
    """`diel logs simulate/17` reads the last run, `diel logs melt-3 simulate/17` reads `melt-3`. A stage with
    one task can be named without the index, and a task by its point: `diel logs simulate depth=2.5 seed=1`.
    """
    paths, rest = run_and_rest(runs, words)
    kinds = PRINTED if kind is None else (kind,)
    reader = look_at(paths)
    task = one_task(reader, rest, f"diel logs {paths.run_id} STAGE/INDEX")
    files: dict[str, BinaryIO] = {}
    try:
        if follow:
            output = _follow(reader, task, attempt, kinds, files)
        else:
            output = find_output(reader, *task, attempt)
            if _copy_news(output, kinds, files) == 0:
                what = (
                    "reported no metrics" if kind == "metrics" else f"printed nothing to {' or '.join(kinds)}"
                )
                more = " so far; --follow waits for more" if output.state is TaskState.RUNNING else ""
                _tell(f"{named_tasks(paths, task[0], [task[1]])[0]} {what}{more}")
    finally:
        _close(files)
    if output is not None and output.state is TaskState.FAILED:  # what a reader wants to know first
        record = reader.history.failures.get(task)
        if record is not None:
            _tell(failure_lines(record)[0])


def _copy(file: BinaryIO, kind: str) -> int:
    """Copy what is new in a file to the output of the same name, byte for byte; return how much."""
    target = sys.stderr.buffer if kind == "stderr" else sys.stdout.buffer
    before = file.tell()
    shutil.copyfileobj(file, target, CHUNK)
    target.flush()
    return file.tell() - before


def _tell(text: str) -> None:
    """Print diel's own messages to stderr, so that a pipe gets only what the task printed."""
    click.echo(paint(printable(click.unstyle(text)), dim=True), err=True)


def _follow(
    reader: Reader,
    task: tuple[str, int],
    attempt: int | None,
    kinds: tuple[str, ...],
    files: dict[str, BinaryIO],
) -> AttemptOutput | None:
    """Copy what a task prints while it prints it, until it has ended; return its last attempt. A worker
    moves the file into the task's directory when the task ends; it stays open here."""
    name, index = task
    output: AttemptOutput | None = None
    size = 0
    while True:
        live = fold_status(reader.paths, reader).state.live
        stage = reader.history.stage(name)
        state = stage.state(index)
        count = stage.attempts.get(index, 1 if state.good else 0)
        if 0 < (attempt or count) <= count:
            before, output = output, find_output(reader, name, index, attempt)
            if before is not None and before.attempt != output.attempt:
                size += sum(_copy(file, kind) for kind, file in files.items())
                _close(files)  # a new attempt begins with new files
            size += _copy_news(output, kinds, files)
        if state.ended or not live:
            break
        time.sleep(PAUSE)
        reader.catch_up()
    if size == 0:
        what = "has not begun" if output is None else "printed nothing"
        _tell(f"{name}/{index} is {state.label}, and {what}")
    return output


def _copy_news(output: AttemptOutput, kinds: tuple[str, ...], files: dict[str, BinaryIO]) -> int:
    size = 0
    for kind in kinds:
        if kind not in files:
            try:
                files[kind] = open(output.path(kind), "rb")  # noqa: SIM115 - stays open
            except OSError:
                continue
        size += _copy(files[kind], kind)
    return size


def _close(files: dict[str, BinaryIO]) -> None:
    for file in files.values():
        file.close()
    files.clear()


@click.command("path")
@words_argument("[RUN] TASK [NAME=VALUE]... [OUTPUT]", complete_task, required=True)
@runs_option
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt; the last if not given.")
@click.option("--output", metavar="OUTPUT", help="The path of this output, not the directory.")
def path_command(words: tuple[str, ...], runs: Path, attempt: int | None, output: str | None) -> None:
    """Print one line, for scripts. The path of a cached task is in the run that computed it.

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
        return
    written = find_output(reader, stage, index, attempt)
    if not written.folder.is_dir():
        raise DielError(f"{written.task} wrote nothing and printed nothing, so it has no directory")
    click.echo(written.folder)


def _output(paths: RunPaths, stage: str, index: int, output: str) -> str:
    """Return the path of an output; of several files, one a line. Raise UsageError where it is no file."""
    # These read results, which a directory alone does not need.
    from diel.observe.results import RunReader
    from diel.store.artifacts import Artifact
    from diel.tasks.results import output_of, outputs_of  # with the results

    run = RunReader(paths)
    record, task = run.record(stage, index), run.named(f"{stage}/{index}")
    if record is None:
        why = f"`diel explain {paths.run_id} {stage}/{index}` says why"
        raise UsageError(f"{task} has no result; {why}")
    outputs = outputs_of(record)
    if output not in outputs:
        hint = did_you_mean(output, outputs) or f"it made: {', '.join(outputs) or 'nothing'}"
        raise UsageError(f"{task} made no '{output}'; {hint}")
    value = output_of(record, output, paths.root)
    files = value if isinstance(value, list) and value else [value]
    if not all(type(file) is Artifact for file in files):
        raise UsageError(f"'{output}' is a value, not a file: `diel results {stage}.{output}` prints it")
    if run.is_dropped(stage, output, index):
        why = "`keep: false`, or `diel clean --intermediate`"
        raise DielError(f"'{output}' of {task} was deleted after use ({why})")
    if gone := [file for file in files if not os.path.exists(file)]:
        raise DielError(f"'{output}' of {task} is gone: {gone[0]}; put it back, or `diel run` makes it again")
    return "\n".join(files)
