"""The watchdog of a worker: a thread that ends an attempt which must not go on.

A command is ended by signals to its process group. A Python function shares the worker's process, so
the worker ends with it: the failure is committed first, and Parsl starts another worker.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from diel.journal.segment import read_segment, segments
from diel.paths import RunPaths
from diel.requests import changed, read_cancels
from diel.states import FailureClass
from diel.worker.bundle import Failure
from diel.worker.reaper import GRACE, end_marked, kill_children, signal_group

TICK = 0.2
"""Seconds between two looks."""
RELEASE_AFTER = 1.0
"""Seconds that one task may take before the rest of its bundle is handed back."""
LATE = 3.0
"""Seconds beyond its timeout after which a function is ended that does not even let this thread run."""
EXIT_CODE = 70
"""Exit code of a worker that ended together with its task."""


@dataclass
class Watched:
    """The attempt that is running."""

    stage: str
    index: int
    task_dir: str
    began: float
    """In time.monotonic seconds."""
    timeout: float | None
    in_process: bool = False
    """Whether it is a Python function in the worker's own process."""
    group: int | None = None
    """Process group of its command, once it began."""
    verdict: Failure | None = None
    """Why it was ended, once it was."""


class Watchdog:
    """Watches one attempt at a time. `lock` guards the attempt; hold it to commit."""

    def __init__(
        self, paths: RunPaths, release: Callable[[], None], give_up: Callable[[Failure], None]
    ) -> None:
        self.lock = threading.RLock()
        self._paths = paths
        self._release = release
        self._give_up = give_up
        self._watched: Watched | None = None
        self._since = _controller_began(paths)
        self._seen = 0.0
        threading.Thread(target=self._run, name="diel-watchdog", daemon=True).start()

    def begin(self, watched: Watched) -> None:
        self._watched = watched
        if watched.in_process and watched.timeout is not None:
            # A function in C may keep the interpreter, and so this thread, from running. The thread
            # behind this call needs no interpreter.
            faulthandler.dump_traceback_later(watched.timeout + LATE, exit=True, file=2)

    def end(self) -> None:
        if self._watched is not None and self._watched.in_process:
            faulthandler.cancel_dump_traceback_later()
        self._watched = None

    def end_now(self, *_: object) -> None:
        """Ends the running command and this process: what SIGTERM asks for. Nothing is committed."""
        watched = self._watched
        if watched is not None and watched.group is not None:
            signal_group(watched.group, signal.SIGKILL)
        kill_children()
        os._exit(128 + signal.SIGTERM)

    def _run(self) -> None:
        while True:
            time.sleep(TICK)
            watched = self._watched
            if watched is not None:
                self._look(watched)

    def _look(self, watched: Watched) -> None:
        age = time.monotonic() - watched.began
        if age > RELEASE_AFTER:
            self._release()
        if watched.verdict is not None:
            return
        if watched.timeout is not None and age > watched.timeout:
            message = f"ran longer than its timeout of {watched.timeout:g} s"
            self._stop(watched, Failure(FailureClass.TIMEOUT, message))
        elif self._is_cancelled(watched):
            self._release()  # the rest of the bundle may be cancelled too
            self._stop(watched, Failure(FailureClass.CANCELLED, "cancelled"))

    def _is_cancelled(self, watched: Watched) -> bool:
        now = changed(self._paths)
        if now == self._seen:
            return False
        cancels = read_cancels(self._paths, self._since)
        if not any(cancel.covers(watched.stage, watched.index) for cancel in cancels):
            self._seen = now  # nothing for this task; a later task looks again
            return False
        return True

    def look_again(self) -> None:
        """Makes the next look read the requests, whatever was read for an earlier task."""
        self._seen = 0.0

    def _stop(self, watched: Watched, verdict: Failure) -> None:
        with self.lock:
            if self._watched is not watched or (watched.group is None and not watched.in_process):
                return
            watched.verdict = verdict
            if watched.group is None:
                self._give_up(verdict)
                kill_children()
                os._exit(EXIT_CODE)
            signal_group(watched.group, signal.SIGTERM)
        patience = time.monotonic() + GRACE
        while self._watched is watched and time.monotonic() < patience:
            time.sleep(TICK / 4)
        with self.lock:
            if self._watched is watched:
                signal_group(watched.group, signal.SIGKILL)
        end_marked("DIEL_TASK_DIR", watched.task_dir)


def _controller_began(paths: RunPaths) -> float:
    """When the run's controller took it over, in seconds since the epoch.

    What was asked before was not asked of it; what was asked since counts for a worker that started later.
    """
    controllers = [name for name in segments(paths.journal) if name.startswith("controller")]
    first = next(read_segment(paths.journal / controllers[-1]), None) if controllers else None
    return float(first[2]["time"]) if first is not None and first[2] is not None else time.time()
