"""Catches the output of tasks, without a file for silent ones.

A worker's own standard output and error are two files; one that was printed to is moved to the task.
"""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any

PRINTED = {1: "stdout", 2: "stderr"}
TAIL = 4096
"""Bytes of a failed task's stderr that go into the journal."""
CHUNK = 1024 * 1024


class Capture:
    """Standard output and error of this process, caught in `folder` under `name`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._streams = [_Stream(number, what) for number, what in {0: "stdin", **PRINTED}.items()]
        self._input = os.dup(0) if _is_descriptor(0) else -1
        self._paths = {number: folder / f"{name}.{what}" for number, what in PRINTED.items()}
        for number in PRINTED:
            self._open(number)
        for stream in self._streams:
            stream.restore()

    def _open(self, number: int, *, truncate: int = os.O_TRUNC) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | truncate
        try:
            opened = os.open(self._paths[number], flags, 0o600)
        except FileNotFoundError:  # somebody removed the folder
            os.makedirs(self._paths[number].parent, exist_ok=True)
            opened = os.open(self._paths[number], flags, 0o600)
        if opened == number:  # it had been closed, so the new file took its place
            os.set_inheritable(number, True)
        else:
            os.dup2(opened, number, inheritable=True)
            os.close(opened)

    def recover(self) -> None:
        """Flush Python's files, and take back what a function may have closed or replaced."""
        for name in PRINTED.values():
            with contextlib.suppress(Exception):
                getattr(sys, name).flush()
        if not (_is_descriptor(0) and _is_descriptor(self._input) and os.path.sameopenfile(0, self._input)):
            self._input = self._input if _is_descriptor(self._input) else os.open(os.devnull, os.O_RDONLY)
            os.dup2(self._input, 0)
        for number in PRINTED:
            try:
                if not self._is_own(number):
                    self._open(number, truncate=0)
            except FileNotFoundError:  # somebody removed it
                pass
            except OSError:  # the function closed it
                self._open(number)
        for stream in self._streams:
            stream.restore()

    def _is_own(self, number: int) -> bool:
        return os.path.samestat(os.fstat(number), os.stat(self._paths[number]))

    def collect(self, task_dir: str) -> bool:
        """Move what was printed since the last call to the task; return whether there was anything."""
        caught = False
        for number, what in PRINTED.items():
            if os.fstat(number).st_size:
                self._move(number, os.path.join(task_dir, what))
                self._open(number)
                caught = True
        return caught

    def _move(self, number: int, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            if self._is_own(number):
                os.rename(self._paths[number], path)
                return
        except FileNotFoundError:  # somebody removed it
            pass
        with open(path, "wb") as file:
            while chunk := os.pread(number, CHUNK, file.tell()):
                file.write(chunk)


class _Stream:
    """One of Python's standard files, which stays the same object: functions and loggers keep it."""

    def __init__(self, number: int, name: str) -> None:
        self._number, self._name, self._former = number, name, getattr(sys, f"__{name}__")
        self._file: Any = getattr(sys, name)
        mode: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace"}
        mode |= {"line_buffering": False, "write_through": False}
        self._mode = {key: getattr(self._file, key, value) for key, value in mode.items()} | {"newline": "\n"}
        self._own = dict(getattr(self._file, "__dict__", {}))

    def restore(self) -> None:
        if not _is_open(self._file):
            if not isinstance(self._file, io.TextIOWrapper):
                self._file = io.TextIOWrapper.__new__(io.TextIOWrapper)
            raw = open(self._number, "wb" if self._number else "rb", closefd=False)  # noqa: SIM115
            io.TextIOWrapper.__init__(self._file, raw, **self._mode)
        with contextlib.suppress(Exception):  # it is another kind of file, or was read from
            vars(self._file).clear()
            vars(self._file).update(self._own)
            self._file.reconfigure(**self._mode)
        setattr(sys, self._name, self._file)
        setattr(sys, f"__{self._name}__", self._former)


def _is_descriptor(number: int) -> bool:
    with contextlib.suppress(OSError):
        return bool(os.fstat(number))
    return False


def _is_open(file: Any) -> bool:
    try:
        return file is not None and not file.closed
    except ValueError:  # its buffer was taken away
        return False


def read_tail(number: int = 2, size: int = TAIL) -> str:
    """Return the end of what the running task wrote to standard error, or to standard output (1)."""
    data = os.pread(number, size, max(0, os.fstat(number).st_size - size))
    return data.decode("utf-8", "replace")
