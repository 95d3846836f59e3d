"""Explanations of a run: what failed, what waits for what, what was computed again and why.

Each is a document for programs and lines for people, from the same facts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from diel.base.errors import counted
from diel.base.states import FINAL, FailureClass
from diel.base.values import format_duration, format_size
from diel.observe.results import RunReader
from diel.observe.results.rows import decided_axes
from diel.observe.status.columns import printable
from diel.store.journal.records import Said

TAIL_LINES = 12
"""The most lines of a failed task's error output to show; `diel logs` has all."""
WIDE = 100


@dataclass(frozen=True)
class Explanation:
    """An answer, or a part of one."""

    document: dict[str, Any]
    """What `--json` prints."""
    lines: list[str] = field(default_factory=list)


def documents(parts: Iterable[Explanation]) -> list[dict[str, Any]]:
    return [part.document for part in parts]


def section(title: str, entries: Mapping[str, str]) -> Iterator[str]:
    """Return names and texts in two columns below a title; nothing without names."""
    if entries:
        yield from ("", title)
        width = max(map(len, entries))
        yield from (f"    {name.ljust(width)}{'  ' if width else ''}{text}" for name, text in entries.items())


def tail(text: str) -> Iterator[str]:
    """Yield the last lines of what a program wrote."""
    lines = text.rstrip().splitlines()
    if len(lines) > TAIL_LINES:
        yield f"    │ … {counted(len(lines) - TAIL_LINES, 'line')} before"
    yield from (f"    │ {printable(line)}" for line in lines[-TAIL_LINES:])


def again_step(run: RunReader, task: str) -> str:
    """Return the next step after a failure that a rule tolerated."""
    name = run.paths.run_id
    return f"`diel logs {name} {task}` shows all its output; `diel run` tries it again, and keeps the rest"


def next_step(run: RunReader, task: str, failure: Said) -> str:
    """Return a sentence or two: where to look, what to change, how to continue."""
    stage, name, exit_code = task.partition("/")[0], run.paths.run_id, failure.get("exit_code")
    kind = failure.get("class")
    if FINAL in failure.get("message", ""):
        return f"start anew with `{run.run_file.command_line}`: no resume mends it; what is done is kept"
    spec = run.workflow.stages[stage].bare
    anew = "or change the workflow and `diel run` it: what is done is kept"
    again, update = (f"then `diel resume {name}{how}`; {anew}" for how in ("", " --update"))
    mended = _begun_anew(run, stage) or update
    match next((candidate for candidate in FailureClass if candidate == kind), FailureClass.APP):
        case FailureClass.TIMEOUT:
            return f"raise `timeout` of '{stage}'{_now(spec.timeout)} or give a task less to do, {again}"
        case FailureClass.OOM:
            memory = spec.resources.memory
            now = f" (now {format_size(memory)})" if memory is not None else ""
            more = "let retries ask for more: `on: {oom: {memory: x2, retries: 2}}`"
            return f"raise `resources.memory` of '{stage}'{now}, or {more}; {again}"
        case FailureClass.WALLTIME:
            now = _now(spec.resources.walltime)
            save = "let it save and continue with `checkpoint: true`"
            return f"raise `resources.walltime` of '{stage}'{now}, or {save}; {again}"
        case FailureClass.PREEMPTED:
            return f"other jobs took its place repeatedly: choose another queue, {again}"
        case FailureClass.LAUNCH:
            there = "do what the message says, or install the program or module where tasks run"
            return f"it could not be started: {there}, {mended}"
        case FailureClass.NODE if exit_code is not None:
            return (
                "fix what the message names: a full disk, or whatever kills programs there; if memory was "
                f"short, give '{stage}' more `resources.memory`, {again}"
            )
        case FailureClass.NODE:
            return (
                "its workers were lost repeatedly: it may need more memory than there is; "
                f"see {run.paths.logs}, {again}"
            )
        case FailureClass.UPSTREAM:
            return f"`diel results {name}` shows what there is to read; fix what makes it, {mended}"
        case FailureClass.CHANGED:
            own = f"tasks write into their own directories; `diel verify {name}` compares what they made"
            return f"put it back, {again}; `diel resume {name} --update` takes your files as they are; {own}"
        case FailureClass.APP | FailureClass.CANCELLED | FailureClass.INTERRUPTED:
            return f"`diel logs {name} {task}` shows all its output; fix it, {mended}"
        case never:
            assert_never(never)


def _begun_anew(run: RunReader, stage: str) -> str:
    """Return what to do once a file of a stage is mended that has decided on an axis; empty if none has."""
    files = {
        name: {*module.files} for name in run.workflow.stages if (module := run.module(name)) is not None
    }
    same = {stage, *(name for name in files if not files[name].isdisjoint(files.get(stage, ())))}
    good = (later for name in same for later in run.graph.after(name) if any(run.results(later)))
    axis = min((label for later in good for label in decided_axes(run, later)), default=None)
    why = f"for the points of '{axis}' rest on what it changes; what is done is kept"
    return "" if axis is None else f"then `{run.run_file.command_line}`, {why}"


def _now(seconds: float | None) -> str:
    return "" if seconds is None else f" (now {format_duration(seconds)})"
