"""What a command or a function leaves running: it is ended before the result is committed."""

import gc
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from diel.base.states import FailureClass
from diel.store.artifacts import Artifacts
from diel.worker.attempt.bundle import Failure
from diel.worker.attempt.reaper import LEFT, end_all, end_unlisted, go_on, lives, orphans, signal_group
from diel.worker.attempt.usage import descendants

PATIENCE = 10.0
"""Seconds within which all must have ended."""
SOON = 0.05
"""Seconds after which a copy of a shell has begun the program that it is for."""


class EndedProcesses(NamedTuple):
    """What was left running, and has ended since."""

    processes: frozenset[int] = frozenset()
    """Those to be reaped."""
    writing: Mapping[str, str] = {}
    """Files of the task that were still written, and what to say of each."""
    has_copy: bool = False
    """Whether a part of the command's own shell still ran."""


def end_left(folder: str, command: int = 0, words: Sequence[str] = ()) -> EndedProcesses:
    """End what a task in a folder left running, and whatever that starts; reap it, but for a command's.
    `command` is its first process, which has ended and is not reaped yet; it began with `words`."""
    if not orphans() - {command}:
        end_unlisted(command)
        return EndedProcesses()
    if not command:
        go_on(_pools())
    processes = [it for root in _living(command) for it in (root.pid, *descendants(root.pid))]
    has_copy = bool(words) and any(_is_copy(it, command, words) for it in processes)
    hint = "`wait` for it (bash does not wait for `>(…)`)" if command else "wait for it, as by `Popen.wait()`"
    writing = {}
    for it in processes:
        with suppress(psutil.Error):
            said = f"was still being written by {psutil.Process(it).name()} at the end of the task: {hint}"
            writing.update(dict.fromkeys(written_below(os.path.realpath(folder), it).values(), said))
    if command:
        signal_group(command, signal.SIGKILL)
    else:
        go_on(_held())
    end = time.monotonic() + PATIENCE
    while (living := _living(command)) and time.monotonic() < end:
        end_all(living)
    ended = frozenset(orphans() - {command, *(it.pid for it in living)})
    for process in () if command else ended:
        with suppress(ChildProcessError):
            os.waitpid(process, os.WNOHANG)
    LEFT.update(it.pid for it in living)
    go_on(LEFT)
    return EndedProcesses(ended, writing, has_copy)


def _living(command: int) -> list[psutil.Process]:
    living = []
    for process in orphans() - {command}:
        with suppress(psutil.Error):
            living.append(psutil.Process(process))
    return [it for it in living if lives(it)]


def _pools() -> set[int]:
    """Return the children that `multiprocessing` has started, its helpers too."""
    from multiprocessing import active_children  # here: few functions leave anything

    helpers = {
        it for it in orphans() if any(name in _line(it) for name in (b"resource_tracker", b"forkserver"))
    }
    return helpers | {it.pid for it in active_children() if it.pid}


def _held() -> set[int]:
    """Return the programs that a module still refers to: they live as long as its globals."""
    gc.collect()
    dropped = {it.pid for it in subprocess._active}  # type: ignore[attr-defined]
    programs = [it for it in gc.get_objects() if issubclass(type(it), subprocess.Popen)]
    return {getattr(it, "pid", 0) for it in programs} - dropped


def _line(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _is_copy(process: int, command: int, words: Sequence[str]) -> bool:
    """Return whether a process of a command's group is a part of its shell: a loop, or commands in `( )`."""
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    with suppress(OSError):
        if os.getpgid(process) == command and _line(process) == line:
            time.sleep(SOON)
            return _line(process) == line
    return False


def written_below(folder: str, process: int) -> dict[int, str]:
    """Return the files below a folder that a process has open for writing, by descriptor."""
    files = {}
    with suppress(OSError):  # it has ended
        for number in os.listdir(f"/proc/{process}/fd"):
            with suppress(OSError):  # closed by now, as the list itself
                file = os.readlink(f"/proc/{process}/fd/{number}")
                if file.startswith(f"{folder}/"):
                    flags = Path(f"/proc/{process}/fdinfo/{number}").read_text().split()[3]
                    files.update({int(number): file} if int(flags, 8) & os.O_ACCMODE else {})
    return files


def check_closed(open_files: Mapping[str, str], artifacts: Artifacts, run_dir: str) -> None:
    """Raise Failure where an artifact is one of these files, or has one in it."""
    for record in artifacts.values() if open_files else ():
        paths = [f"{os.path.realpath(run_dir)}/{file['path']}" for file in record.get("files", (record,))]
        for file, why in sorted(open_files.items()):
            if any(file == path or file.startswith(f"{path}/") for path in paths):
                raise Failure(FailureClass.APP, f"`{os.path.basename(file)}` {why}", 0)
