"""A run in the formats of other tools, written by their own libraries: one file for each tool."""

import errno
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.errors import DielError, UsageError, counted
from diel.base.files import filling
from diel.base.states import TaskState
from diel.observe.results import RunReader
from diel.store.artifacts import Artifact
from diel.store.journal.records import Fail, Made, Result
from diel.tasks.results import output_of

__all__ = ["TOOLS", "take_out"]
Writer = Callable[[RunReader, Path, Path], list[str]]
"""Writes a run into the first directory, which becomes the second; returns what there is to say about it."""


class Tool(NamedTuple):
    """One that reads what diel writes for it."""

    file: str
    """What it is given to read; a pattern where names are the run's."""
    extra: str
    """The extra of diel with its library; empty if it takes none."""
    next: str
    """What its user does next."""


TOOLS = {
    "mlflow": Tool("mlflow.db", "mlflow", "mlflow server --backend-store-uri sqlite:///{folder}/mlflow.db"),
    "optuna": Tool("optuna.db", "search", "optuna-dashboard sqlite:///{folder}/optuna.db"),
    "tensorboard": Tool("tensorboard", "tensorboard", "tensorboard --logdir {folder}/tensorboard"),
    "rocrate": Tool("ro-crate-metadata.json", "rocrate", "rocrate-validator validate {folder}"),
    "wfformat": Tool("wfformat.json", "", 'wfcommons.Instance("{folder}/wfformat.json")'),
}


def take_out(run: RunReader, name: str, folder: Path) -> list[str]:
    """Write a run for a tool into a directory, beside what others have there; return what to say. Raise
    UsageError where the tool's library is not installed, where the run has nothing for it, and where the
    directory has such a file already; DielError where the disk is full."""
    tool = TOOLS[name]
    target = folder.absolute()
    if (target / tool.file).exists():
        there = f"{folder / tool.file} is there already, and stays as it is"
        raise UsageError(f"{there}: name another directory, or remove it")
    try:
        # An extra, and slow to import: only when this tool is meant.
        write: Writer = import_module(f"diel.export.{name}").write
    except ImportError as error:
        get = f"pip install 'diel[{tool.extra}]'"
        raise UsageError(f"--to {name} needs {error.name}: {get}") from error
    try:
        with filling(target, last=tool.file) as part:
            lines = write(run, part, target)
    except Exception as error:
        if _is_full(error):
            raise DielError(f"no room is left in {folder}: make some; nothing was written") from error
        raise
    return [*lines, f"next: {tool.next.format(folder=folder)}"]


def _is_full(error: BaseException | None) -> bool:
    """Return whether a disk is full, by this or what caused it: libraries wrap what SQLite says."""
    import sqlite3  # seldom needed

    while error is not None:
        full = isinstance(error, sqlite3.Error) and "full" in str(error)
        if full or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
            return True
        error = error.__cause__ or error.__context__
    return False


def hasten(engine: Any) -> None:
    """Have an engine's connections from now on hand their writes to the system, and not wait for the disk."""
    from sqlalchemy import event  # an extra

    engine.dispose()
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))


Key = tuple[str, int]
"""A task: its stage and index."""


class TaskOutcome(NamedTuple):
    """A task that succeeded, failed or was taken from the cache, also for a trial that was pruned."""

    stage: str
    number: int
    state: TaskState
    attempt: int
    ended: float | None
    """In seconds since the epoch; None if it ran in an earlier run."""
    seconds: float | None
    host: str
    """Where it ran; empty if that is not known."""
    record: Result | Fail
    pruned: bool
    """Whether its trial was pruned: then no result of it counts."""

    @property
    def task(self) -> str:
        return f"{self.stage}/{self.number}"

    @property
    def began(self) -> float | None:
        """When it began, in seconds since the epoch."""
        return None if self.ended is None or self.seconds is None else self.ended - self.seconds

    @property
    def outcome(self) -> Made:
        """What it made; nothing if it failed."""
        return {} if self.record["event"] == "fail" else self.record

    @property
    def message(self) -> str:
        """Why it failed; empty if it did not."""
        return self.record["message"] if self.record["event"] == "fail" else ""

    @property
    def usage(self) -> Mapping[str, float]:
        """What it used, as far as it was measured."""
        usage: Mapping[str, float] = self.record.get("usage") or {}  # type: ignore[assignment]
        return usage

    def files(self, root: Path) -> Iterator[tuple[str, Artifact]]:
        """Yield a task's files and directories, each with its output."""
        for output in self.outcome.get("artifacts", {}):
            files: Any = output_of(self.outcome, output, root)
            for file in files if isinstance(files, list) else (files,):
                if Path(file).exists():
                    yield output, file


_ENDS = (b'"event":"fail"', b'"event":"done"', b'"event":"cached"')


def ran(run: RunReader) -> dict[Key, TaskOutcome]:
    """Return the tasks that ended, in the order of stages and tasks."""
    workers = run.events(b'"event":"worker"')
    hosts = {segment: record["host"] for segment, record in workers if record["event"] == "worker"}
    ended: dict[Key, TaskOutcome] = {}
    for end in _ENDS:
        for segment, record in run.events(end):
            if (
                record["event"] not in ("fail", "done", "cached")
                or record["stage"] not in run.workflow.stages
            ):
                continue
            task = _ended(run, hosts.get(segment, ""), record)
            other = None if task is None else ended.get((task.stage, task.number))
            if task is not None and (other is None or other.attempt <= task.attempt):
                ended[task.stage, task.number] = task
    order = {stage: place for place, stage in enumerate(run.graph.order)}
    return dict(sorted(ended.items(), key=lambda item: (order[item[0][0]], item[0][1])))


def _ended(run: RunReader, host: str, record: Result | Fail) -> TaskOutcome | None:
    """Return the task that a record ends; None if the task went on after it."""
    stage, number = record["stage"], record["index"]
    history = run.history.stage(stage)
    state, seconds, pruned = history.state(number), record.get("seconds"), history.never_came(number)
    if record["event"] == "fail":
        if not state.ended or state.good:
            return None
    elif not pruned and not history.takes(record):
        return None
    elif record["event"] == "cached":
        return TaskOutcome(stage, number, TaskState.CACHED, 0, None, seconds, "", record, pruned)
    else:
        state = TaskState.DONE
    return TaskOutcome(stage, number, state, record["attempt"], record["time"], seconds, host, record, pruned)


def read_by(run: RunReader, key: Key, tasks: Mapping[Key, TaskOutcome]) -> dict[Key, list[str]]:
    """Return the tasks that one waited for and that ran, each with the outputs that it read; none that ran
    beside it. Of a pruned trial, only its own tasks read what its tasks made."""
    outputs: dict[Key, list[str]] = {}
    for link in run.into(key[0]):
        if link.alongside or not (link.up.known and link.down.known):
            continue
        members = link.members if tasks[key].pruned else link.good_members
        for index in members(link.group_of_downstream(key[1])):
            parent = tasks.get((link.up.name, index))
            if parent is not None and parent.state.good:
                outputs.setdefault((link.up.name, index), []).append(link.edge.output or "")
    return outputs


def left_out(run: RunReader, tasks: Mapping[Key, TaskOutcome]) -> list[str]:
    """Tell of a run's tasks without an end, of those of another run, and of pruned trials."""
    states: dict[TaskState, int] = {}
    for name in run.workflow.stages:
        for state, number in run.history.stage(name).counts().items():
            states[TaskState[state.upper()]] = states.get(TaskState[state.upper()], 0) + number
    counts = Counter(task.state for task in tasks.values() if not task.pruned)
    lacking = {state: n - counts[state] for state, n in states.items() if n > counts[state]}
    unread = sum(n for state, n in lacking.items() if state.good)
    waiting = ", ".join(f"{n:,} {state.label}" for state, n in lacking.items() if not state.good)
    cached = sum(task.state is TaskState.CACHED for task in tasks.values())
    pruned = sum(task.pruned for task in tasks.values())
    notes = {
        f"left out are tasks that have not run: {waiting} (the run: {run.state})": waiting,
        f"left out: {counted(unread, 'task')}, damaged in the journal": unread,
        f"{counted(cached, 'task')} ran in earlier runs: their times and places are not this run's": cached,
        f"{counted(pruned, 'task')} ran for trials that were pruned: no result of theirs counts": pruned,
    }
    return [text for text, told_of in notes.items() if told_of]


def when(time: float) -> str:
    """Return a time as ISO 8601 has it, in UTC, to the millisecond."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
