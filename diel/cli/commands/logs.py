"""`diel logs`: what a task printed."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from diel.cli.options import runs_option
from diel.cli.target import complete_task, run_and_rest
from diel.errors import JournalError, UsageError, counted
from diel.journal.segment import Reader
from diel.journal.snapshot import read_run
from diel.paths import RunPaths
from diel.states import TaskState
from diel.status import find_task, fold_status
from diel.status.columns import paint, printable, shorten
from diel.status.run import LIVE
from diel.status.tasks import failure_lines

PRINTED = ("stdout", "stderr")
METRICS = ".metrics.jsonl"
PAUSE = 0.2
"""Seconds between two looks at a followed task."""
CHUNK = 1 << 20


@dataclass(frozen=True)
class AttemptOutput:
    """Where the files of one attempt are."""

    task: str
    attempt: int
    state: TaskState
    folder: Path
    """The attempt's directory; a silent task may have none."""
    capture: Path | None = None
    """Where its worker keeps what it prints while it runs: a path without its suffix."""

    def path(self, kind: str) -> Path:
        """The file of one kind, wherever it is now."""
        kept = self.folder / kind
        if kept.exists() or self.capture is None or kind not in PRINTED:
            return self.folder / METRICS if kind == "metrics" else kept
        return self.capture.with_name(f"{self.capture.name}.{kind}")


@click.command("logs")
@click.argument("words", nargs=-1, required=True, metavar="[RUN] TASK", shell_complete=complete_task)
@runs_option
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt; the last if not given.")
@click.option("--stdout", "kind", flag_value="stdout", help="Standard output only.")
@click.option("--stderr", "kind", flag_value="stderr", help="Standard error only.")
@click.option("--metrics", "kind", flag_value="metrics", help="The metrics it reported, as JSON lines.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing while the task runs.")
def command(words: tuple[str, ...], runs: Path, attempt: int | None, kind: str | None, follow: bool) -> int:
    """`diel logs simulate/17` reads the last run, `diel logs melt-3 simulate/17` reads `melt-3`. A stage with
    one task can be named without the index.
    """
    paths, rest = run_and_rest(runs, words)
    if len(rest) != 1:
        found = "none" if not rest else f"{len(rest)} ({', '.join(rest)})"
        raise UsageError(f"expected one task, found {found}: diel logs {paths.run_id} STAGE/INDEX")
    wanted = PRINTED if kind is None else (kind,)
    reader = read_run(paths)
    files: dict[str, BinaryIO] = {}
    try:
        if follow:
            output = _follow(reader, rest[0], attempt, wanted, files)
        else:
            output = find_output(reader, rest[0], attempt)
            if _copy_news(output, wanted, files) == 0:
                what = "reported no metrics" if kind == "metrics" else "printed nothing to "
                what += "" if kind == "metrics" else " or ".join(wanted)
                more = " so far; --follow waits for more" if output.state is TaskState.RUNNING else ""
                _tell(f"{output.task} {what}{more}")
    finally:
        _close(files)
    if output is not None and output.state is TaskState.FAILED:  # what a reader wants to know first
        stage, _, index = output.task.partition("/")
        record = reader.history.failures.get((stage, int(index)))
        if record is not None:
            _tell(shorten(failure_lines(record)[0], 400))
    return 0


# --- where the output is --------------------------------------------------------------------------


def find_output(reader: Reader, task: str, attempt: int | None = None) -> AttemptOutput:
    """The output of a task's attempt; a cached task's is in the run that computed it.

    Raises UsageError where there is no such task or attempt, or where it has not begun.
    """
    name, index = find_task(reader, task)
    stage = reader.history.stage(name)
    state = stage.state(index)
    label = f"{name}/{index}"
    if state is TaskState.CACHED:
        return _cached_output(reader.paths, name, index, attempt)
    last = stage.attempts.get(index, 1 if state is TaskState.DONE else 0)
    if last == 0:
        why = f"`diel explain {reader.paths.run_id} {label}` says why"
        raise UsageError(f"{label} is {state.label} and has not begun, so it has printed nothing; {why}")
    number = attempt or last
    if number > last:
        raise UsageError(f"{label} has had {counted(last, 'attempt')}, but no attempt {number}")
    under_way = stage.under_way.get(index)
    capture = None
    if under_way is not None and under_way.number == number and under_way.state is TaskState.RUNNING:
        capture = reader.paths.captures / under_way.worker.removesuffix(".jsonl")
    return AttemptOutput(label, number, state, reader.paths.task_dir(name, index, number), capture)


def _cached_output(paths: RunPaths, stage: str, index: int, attempt: int | None) -> AttemptOutput:
    """The output in the run that computed the result, found by the key that both records share."""
    label = f"{stage}/{index}"
    from diel.project.cache import open_keys  # what cached tasks alone need
    from diel.results import Recorded

    cached = Recorded(paths).record(stage, index)
    if cached is None or cached["event"] != "cached":
        raise JournalError(f"{paths.run_id} has no 'cached' record of {label}")
    origin = RunPaths(paths.root.parent / cached["run"])
    keys = open_keys(origin)
    made = None if keys is None else keys.result(cached["key"])
    if made is None or made["event"] != "done":
        raise UsageError(f"{label} was taken from {cached['run']}, which no longer exists")
    last = made["attempt"]
    if attempt is not None and attempt > last:
        raise UsageError(
            f"{label} comes from {cached['run']}, where it had {counted(last, 'attempt')}, not {attempt}"
        )
    number = attempt or last
    folder = origin.task_dir(made["stage"], made["index"], number)
    return AttemptOutput(f"{origin.run_id} {made['stage']}/{made['index']}", number, TaskState.DONE, folder)


# --- showing --------------------------------------------------------------------------------------


def _copy(file: BinaryIO, kind: str) -> int:
    """Copies what is new in a file to the output of the same name, byte for byte; returns the number of
    bytes."""
    target = sys.stderr.buffer if kind == "stderr" else sys.stdout.buffer
    before = file.tell()
    shutil.copyfileobj(file, target, CHUNK)
    target.flush()
    return file.tell() - before


def _tell(text: str) -> None:
    """Prints diel's own messages to stderr, so that a pipe gets only what the task printed."""
    click.echo(paint(printable(click.unstyle(text)), dim=True), err=True)


def _follow(
    reader: Reader, task: str, attempt: int | None, wanted: tuple[str, ...], files: dict[str, BinaryIO]
) -> AttemptOutput | None:
    """Copies what a task prints while it prints it, until it has ended; returns its last attempt.

    A worker moves the file into the task's directory when the task ends; it stays open here.
    """
    name, index = find_task(reader, task)
    output: AttemptOutput | None = None
    size = 0
    while True:
        live = fold_status(reader.paths, reader).state in LIVE
        stage = reader.history.stage(name)
        state = stage.state(index)
        count = stage.attempts.get(index, 1 if state.good else 0)
        if 0 < (attempt or count) <= count:
            before, output = output, find_output(reader, f"{name}/{index}", attempt)
            if before is not None and before.attempt != output.attempt:
                size += sum(_copy(file, kind) for kind, file in files.items())
                _close(files)  # a new attempt begins with new files
            size += _copy_news(output, wanted, files)
        if state.ended or not live:
            break
        time.sleep(PAUSE)
        reader.catch_up()
    if size == 0:
        what = "has not begun" if output is None else "printed nothing"
        _tell(f"{name}/{index} is {state.label}, and {what}")
    return output


def _copy_news(output: AttemptOutput, wanted: tuple[str, ...], files: dict[str, BinaryIO]) -> int:
    size = 0
    for kind in wanted:
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
