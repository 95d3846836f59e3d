"""The output of tasks, caught without a file for a silent one.

A worker's own standard output and error are two files that it keeps for its whole life. What a task
prints lands there; if it printed anything, the file is moved into the task's directory and a new one
takes its place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

STREAMS = {1: "stdout", 2: "stderr"}
TAIL = 4096
"""Bytes of a failed task's stderr that go into the journal."""


class Capture:
    """Standard output and error of this process, caught in `folder` under `name`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._paths = {number: folder / f"{name}.{stream}" for number, stream in STREAMS.items()}
        for number in STREAMS:
            self._open(number)

    def _open(self, number: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        opened = os.open(self._paths[number], flags, 0o600)
        os.dup2(opened, number, inheritable=True)
        os.close(opened)

    def collect(self, task_dir: str) -> bool:
        """Moves what was printed since the last time to the task; says whether there was anything."""
        sys.stdout.flush()
        sys.stderr.flush()
        caught = False
        for number, stream in STREAMS.items():
            if os.fstat(number).st_size:
                os.makedirs(task_dir, exist_ok=True)
                os.rename(self._paths[number], os.path.join(task_dir, stream))
                self._open(number)
                caught = True
        return caught

    def tail(self) -> str:
        """The end of what the running task wrote to standard error."""
        sys.stderr.flush()
        size = os.fstat(2).st_size
        data = os.pread(2, TAIL, max(0, size - TAIL)) if size else b""
        return data.decode("utf-8", "replace")

    def remove(self) -> None:
        """Removes the empty files that are left at the end."""
        for path in self._paths.values():
            path.unlink(missing_ok=True)
