"""Every process that a command started, however it hides: orphans become children of the test's process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator

import psutil

PR_SET_CHILD_SUBREAPER = 36

Living = Callable[[], list[psutil.Process]]


@contextlib.contextmanager
def gathered() -> Iterator[Living]:
    """Orphans come to this process, and not to init; what is left of them at the end is killed.

    Gives a function that finds those that live. What this process had before, as a server that other tests share,
    is none of them.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = set(psutil.Process().children(recursive=True))

    def living() -> list[psutil.Process]:
        return [process for process in psutil.Process().children(recursive=True) if _lives(process, before)]

    try:
        yield living
    finally:
        for process in living():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that only waits for its parent to read its exit code does not."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def gone(pid: int) -> bool:
    """Whether a process has ended; its entry may stay until somebody asks for its exit code."""
    try:
        return not alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def _lives(process: psutil.Process, before: set[psutil.Process]) -> bool:
    """Whether it came since and has not ended; one that ended is reaped, where this process is its parent."""
    if process in before:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        if process.status() != psutil.STATUS_ZOMBIE:
            return True
        if process.ppid() == os.getpid():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
    return False
