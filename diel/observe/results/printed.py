"""Where the files of a task's attempt are; those of a cached task are in the run that computed it."""

from dataclasses import dataclass
from pathlib import Path

from diel.base.errors import JournalError, UsageError, counted
from diel.base.paths import RunPaths
from diel.base.states import TaskState
from diel.store.journal.segment import Reader
from diel.tasks.metrics import FILE

PRINTED = ("stdout", "stderr")


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
        """Return the file of one kind, wherever it is now."""
        path = self.folder / kind
        if path.exists() or self.capture is None or kind not in PRINTED:
            return self.folder / FILE if kind == "metrics" else path
        return self.capture.with_name(f"{self.capture.name}.{kind}")


def find_output(reader: Reader, name: str, index: int, attempt: int | None = None) -> AttemptOutput:
    """Return the output of a task's attempt; a cached task's is in the run that computed it. Raise UsageError
    where there is no such task or attempt, or where it has not begun."""
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
    label = f"{stage}/{index}"
    from diel.observe.results import RunReader  # what cached tasks alone need
    from diel.store.project.cache import open_keys
    from diel.tasks.results import artifact_home

    cached = RunReader(paths).record(stage, index)
    if cached is None or cached["event"] != "cached":
        raise JournalError(f"{paths.run_id} has no 'cached' record of {label}")
    origin = RunPaths(artifact_home(cached, paths.root))
    keys = open_keys(origin)
    done = None if keys is None else keys.record(cached["key"])
    if done is None or done["event"] != "done":
        raise UsageError(f"{label} was taken from {cached['run']}, which no longer exists")
    last = done["attempt"]
    if attempt is not None and attempt > last:
        raise UsageError(
            f"{label} comes from {cached['run']}, where it had {counted(last, 'attempt')}, not {attempt}"
        )
    number = attempt or last
    folder = origin.task_dir(done["stage"], done["index"], number)
    return AttemptOutput(f"{origin.run_id} {done['stage']}/{done['index']}", number, TaskState.DONE, folder)
