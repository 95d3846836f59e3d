"""Every process that a command started, however it hides: orphans become children of the test's process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator

import psutil

PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def gathered() -> Iterator[None]:
    """Orphans come to this process, and not to init; what is left of them at the end is killed."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    try:
        yield
    finally:
        for process in psutil.Process().children(recursive=True):
            if process.pid not in before:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def living() -> list[psutil.Process]:
    """The descendants of this process that live; those that ended are reaped, but for its own children."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif process.ppid() == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
    return found
