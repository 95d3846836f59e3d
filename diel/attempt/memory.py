"""How much memory a task takes on this node."""

from __future__ import annotations

import contextlib
import os
import time

import psutil

SHARE = 0.02
"""The most of a core's time that looking may take: finding a task's processes means listing all."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Meter:
    """Measures a process with all its descendants, now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def exceeds(self, root: int, limit: int) -> int:
        """Bytes that the tree of processes under `root` takes where that is beyond a limit; else 0.

        Resident memory counts pages that processes share once for each: before it is held against a
        task, the shared ones are divided among those that share them.
        """
        if time.monotonic() < self._next:
            return 0
        began = time.thread_time()
        processes = _tree(root)
        used = sum(map(_resident, processes))
        if used > limit:
            used = sum(map(_proportional, processes))
        self._next = time.monotonic() + (time.thread_time() - began) / SHARE
        return used if used > limit else 0


def _tree(root: int) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
    return []


def _resident(process: int) -> int:
    """Resident bytes; 0 for a process that is gone."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _proportional(process: int) -> int:
    """Resident bytes, those shared with other processes in proportion; all of them where Linux is old."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return _resident(process)
