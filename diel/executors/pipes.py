"""Warm worker processes, one for each thread of a thread pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue

from diel.errors import DielError, NotBegun
from diel.executors.server import PATIENCE, Line, Server

PAUSE = 0.3
"""Seconds after the end of a worker that could run nothing before its thread takes another bundle."""


class WorkerLost(DielError):
    """A worker process ended while it had a bundle."""


class Pipes:
    """Worker processes. They are forked as threads ask for them, from a server that is started at once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """`environ` is what workers and tasks find around them."""
        self._environ = environ
        self._local = threading.local()
        self._lock = threading.Lock()
        self._stopped = False
        self._lines: set[Line] = set()
        self._server = Server(environ)
        self._since: float | None = time.monotonic()
        self.news: SimpleQueue[str] = SimpleQueue()
        """What went wrong, for people."""

    @property
    def starting(self) -> float:
        """Seconds for which no worker of the server has begun; 0 once one has."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def run(self, packed: bytes) -> bytes:
        """Runs a packed bundle in this thread's worker.

        Raises WorkerLost where that ends meanwhile, and NotBegun where it could run nothing.
        """
        line: Line | None = getattr(self._local, "line", None)
        try:
            if line is None or line.is_gone:
                self._drop(line)
                line = self._local.line = self._fork()
            line.give(packed)
            self._since = None
            return line.take()
        except (EOFError, OSError) as error:
            begun, ended = line is not None and line.begun, self._drop(line)
            if begun or self._stopped:
                raise WorkerLost(ended) from error
            time.sleep(PAUSE)  # whatever keeps workers from beginning may be over in a moment
            said = self._server.reason()
            raise NotBegun(f"{ended}{said and f': {said}'}") from error

    def _fork(self) -> Line:
        with self._lock:
            if self._stopped:
                raise WorkerLost("the run is being stopped")
            if ended := self._server.ended:
                said = self._server.reason()
                why = f"{ended}{said and f': {said}'}"
                self.news.put(f"the server that workers are forked from {why}; it is started anew")
                self._server.stop()
                self._server.close()
                self._server, self._since = Server(self._environ), time.monotonic()
            line = self._server.fork()
            self._lines.add(line)
            return line

    def _drop(self, line: Line | None) -> str:
        """Ends a worker; returns how it ended."""
        self._local.line = None
        if line is None:
            return "the server of the workers is gone"
        self._lines.discard(line)
        return line.end()

    def stop(self) -> None:
        """Ends the processes; a thread that waits for one gets WorkerLost."""
        self._stopped = True
        with self._lock:
            self._server.stop(PATIENCE if self._since is None else 0.0)

    def close(self) -> None:
        """Forgets them, once no thread waits any more."""
        for line in self._lines:
            line.close()
        self._server.close()
