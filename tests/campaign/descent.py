"""Every process that was started here, however it hid: as descendants of a subreaper.

An orphan becomes the child of the nearest subreaper above it, whatever session, process group, title or
environment it gave itself. So all that a run started stays below the process that started the run. Any user
may do that on any Linux since 3.4; no cgroup has to be made.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from types import TracebackType

import psutil

_PR_SET_CHILD_SUBREAPER = 36


def _adopt_orphans(whether: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "this process cannot become a subreaper")


class Descent:
    """The processes that came below this one since; those that are there already are none of them."""

    def __enter__(self) -> Descent:
        _adopt_orphans(True)
        self._own: set[int] = set()
        self.pass_over()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kill(self.processes)
        _adopt_orphans(False)

    def pass_over(self) -> None:
        """What is there now is not the run's, nor is what it starts: a scheduler's daemons, for instance."""
        self._others = {process.pid for process in psutil.Process().children(recursive=True)}

    def own(self, pid: int) -> None:
        """A child whose exit code somebody else waits for."""
        self._own.add(pid)

    def processes(self) -> list[psutil.Process]:
        """Those that live; dead orphans are buried on the way."""
        living = []
        for process in psutil.Process().children(recursive=True):
            if process.pid in self._others:
                continue
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    living.append(process)
                elif process.ppid() == os.getpid() and process.pid not in self._own:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(process.pid, os.WNOHANG)
        return living

    def is_empty_within(self, seconds: float) -> bool:
        """Whether nothing is left by then. One look may miss a process whose parent dies in that moment."""
        end = time.monotonic() + seconds
        empty = 0
        while empty < 3:
            empty = 0 if self.processes() else empty + 1
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True


def kill(find: Callable[[], Iterable[psutil.Process]]) -> int:
    """SIGKILL to all that is found, until nothing is: stopped first, so that none sees another one die.

    Gives how many there were.
    """
    pids = set()
    while found := list(find()):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in found:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
        pids |= {process.pid for process in found}
        time.sleep(0.01)
    return len(pids)


def told(process: psutil.Process) -> str:
    """A process in a line."""
    try:
        age = time.time() - process.create_time()
        return f"{process.pid} < {process.ppid()}, {age:.0f} s old: {' '.join(process.cmdline())[:160]}"
    except psutil.Error:
        return f"{process.pid}: gone since"
