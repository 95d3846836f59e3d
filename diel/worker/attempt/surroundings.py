"""The surroundings of an attempt: environment variables, and the context of a Python module."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from diel.base.files import put
from diel.base.paths import RunPaths
from diel.base.states import FailureClass
from diel.store.artifacts import ReadFiles
from diel.store.artifacts.identity import FirstLook
from diel.store.project.requests import StopCheck
from diel.worker.attempt.arguments import own
from diel.worker.attempt.bundle import AT_LAUNCHER, LAUNCHER, Failure, Rendered
from diel.worker.attempt.state import mode_mask
from diel.worker.attempt.watchdog import RunningAttempt
from diel.worker.context import Context

_ZONE = time.tzname
"""The time zone of this process, which follows TZ only when it is told."""


class Surroundings:
    """The surroundings that all attempts of one run share in one worker process."""

    def __init__(self, paths: RunPaths) -> None:
        """Make the file that attempts without parameters or inputs read. Raise OSError."""
        nothing = paths.captures / "nothing.json"
        if not nothing.is_file():  # tasks of other workers may be reading it
            put(nothing, "{}")
        self._nothing = str(nothing)
        self._paths = paths
        self._of_run = {"DIEL_RUN_ID": paths.run_id, "DIEL_RUN_DIR": str(paths.root)}
        self._tasks = str(paths.tasks)

    def variables(self, attempt: RunningAttempt) -> dict[str, str]:
        """Environment variables of an attempt, besides those of the worker."""
        work, request, limits, task_dir = attempt.work, attempt.request, attempt.limits, attempt.task_dir
        deadline = "" if limits.deadline is None else f"{limits.deadline:.3f}"
        return {
            **self._of_run,
            "DIEL_STAGE": work.stage,
            "DIEL_TASK_ID": f"{work.stage}/{request.index}",
            "DIEL_ATTEMPT": str(request.attempt),
            "DIEL_TASK_DIR": task_dir,
            "DIEL_PARAMS": f"{task_dir}/.params.json" if request.params else self._nothing,
            "DIEL_INPUTS": f"{task_dir}/.inputs.json" if request.inputs else self._nothing,
            "DIEL_RESULT": f"{task_dir}/.result.json",
            "DIEL_METRICS": f"{task_dir}/.metrics.jsonl",
            "DIEL_CHECKPOINT_DIR": f"{self._tasks}/{work.stage}/{request.index}.checkpoint",
            "DIEL_DEADLINE": deadline,
            "OMP_NUM_THREADS": str(work.threads),
        }

    def context(self, attempt: RunningAttempt) -> Context:
        """Return the same for a Python module."""
        work, request, limits = attempt.work, attempt.request, attempt.limits
        return Context(
            task_dir=Path(attempt.task_dir),
            run_id=self._paths.run_id,
            run_dir=self._paths.root,
            stage=work.stage,
            task_id=f"{work.stage}/{request.index}",
            index=request.index,
            attempt=request.attempt,
            deadline=limits.deadline,
            checkpoint=work.checkpoint,
            interrupt_at=limits.interrupt,
            params=own(request.params),
            inputs=own(request.inputs),
            services=request.services or {},
            is_pruned=StopCheck(self._paths, work.stage, request.index),
            streams=request.streams,
            shards=request.shards or {},
            local=None if work.staging is None else work.staging.local,
        )


class Variables:
    """The variables of this process, as the tasks of its functions have them one after the other."""

    def __init__(self) -> None:
        self._of_worker = self._present = dict(os.environ)
        self._addresses: list[int] = []

    def enter(self, own: Mapping[str, str], declared: Mapping[str, str]) -> None:
        """Set those of a task: its own, and those that its stage declares."""
        self._turn_to({**self._of_worker, **own, **declared})
        if "TZ" in declared:
            time.tzset()
        self._addresses = c_variables()

    def leave(self, own: Mapping[str, str]) -> None:
        """Undo what a function changed and its stage declared; its task's own stay for the next one."""
        is_changed = not self._addresses or c_variables() != self._addresses
        if is_changed:
            self._present = dict(os.environ)
        self._turn_to({**self._of_worker, **own})
        if is_changed and self._addresses:
            _restore_of_c()
        if time.tzname != _ZONE:
            time.tzset()

    def _turn_to(self, variables: dict[str, str]) -> None:
        for name in self._present.keys() - variables.keys():
            del os.environ[name]
        os.environ.update(variables.items() - self._present.items())
        self._present = variables


@cache
def _variables() -> Any:
    """Return where C keeps the variables of this process; None in a Python without `ctypes`."""
    try:
        import ctypes  # here: a Python without it does without this

        return ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    except (ImportError, OSError, ValueError):
        return None


def c_variables() -> list[int]:
    """Return C's addresses of the variables of this process: others once anybody sets one."""
    variables, addresses = _variables(), list[int]()
    while variables and (address := variables[len(addresses)]):
        addresses.append(address)
    return addresses


def _restore_of_c() -> None:
    """Set the variables of C, which programs get, to Python's: `os.putenv` and libraries change C's alone."""
    import ctypes  # here: addresses are known

    texts = {os.fsdecode(ctypes.string_at(address)) for address in c_variables()}
    expected = {f"{name}={value}" for name, value in os.environ.items()}
    for text in texts - expected:
        os.unsetenv(text.partition("=")[0])
    for text in expected - texts:
        os.putenv(*text.split("=", 1))


def open_checkpoint(folder: str, key: str) -> None:
    """Make an attempt's checkpoint directory, which belongs to a key. Raise OSError.

    What attempts with another key saved is put aside beside it, and taken back with that key: it is of other
    inputs, or of another version of the task.
    """
    note = Path(f"{folder}.key")
    saved = note.read_text("ascii") if note.exists() else key
    if saved != key:  # each step leaves what the next attempt with any key can go on from
        with suppress(FileNotFoundError):
            os.rename(folder, f"{folder}.{saved}")
    put(note, key)
    if not os.path.isdir(folder):
        with suppress(FileNotFoundError):
            os.rename(f"{folder}.{key}", folder)
        os.makedirs(folder, exist_ok=True)


def search_path() -> str:
    """PATH for tasks, with the programs of this virtual environment even if it is not activated."""
    path = os.environ.get("PATH", os.defpath)
    own = os.path.dirname(sys.executable)
    if sys.prefix == sys.base_prefix or own in path.split(os.pathsep):
        return path
    return f"{own}{os.pathsep}{path}"


def write_rendered(rendered: Iterable[Rendered], task_dir: str) -> None:
    """Write them, and the directories above. Raise OSError; Failure where one is in another's way."""
    for path, text, executable in rendered:
        whole = f"{task_dir}/{path}"
        try:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "wb") as file:
                text = text.replace(AT_LAUNCHER, f"{task_dir}/{LAUNCHER}")
                file.write(text.encode("utf-8", "surrogateescape"))
            if executable:
                os.chmod(whole, 0o777 & ~mode_mask())
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            message = f"'{path}' cannot be written: another file of the task is where it should be"
            raise Failure(FailureClass.LAUNCH, message) from error


@contextmanager
def held_to_files(
    watched: Sequence[FirstLook], reads: Mapping[str, Any] | None, reader: str = "it"
) -> Iterator[None]:
    """Compare what a task reads, or who answers it, before and after. Raise Changed. Files that lie where
    their user has them are compared whatever else the task did."""
    files = ReadFiles(reads, watched, reader)
    files.begin()
    try:
        yield
    except Failure as failure:
        if failure.kind not in (FailureClass.CANCELLED, FailureClass.INTERRUPTED):
            files.end(failed=True)
        raise
    files.end()
