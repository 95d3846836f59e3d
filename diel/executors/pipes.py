"""The worker processes of one machine: forked from a server, and handed bundles by threads through pipes."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

import psutil

from diel.attempt.bundle import Bundle
from diel.attempt.line import SPENT, is_readable, receive, send
from diel.attempt.reaper import wait_ended
from diel.carried import PYTHON
from diel.errors import NotBegun, WorkerLost

PAUSE = 0.3
"""Seconds that a thread waits after a worker that could run nothing, before its next bundle."""
PATIENCE = 5.0
"""Seconds that processes get to end once they were killed."""
REASON = 500


class Pipes:
    """Worker processes, forked as threads need them from a server that starts at once."""

    def __init__(self, workers: int, environ: Mapping[str, str]) -> None:
        """`environ` is the environment of workers and tasks."""
        self._environ = environ
        self._threads = ThreadPoolExecutor(workers, "diel-pipe")
        self._lock = threading.Lock()
        self._stopped = False
        self._idle: list[Pipe] = []
        self._server = WorkerServer(environ)
        self._since: float | None = time.monotonic()
        self.news: SimpleQueue[str] = SimpleQueue()

    @property
    def starting(self) -> float:
        """Seconds without a worker of the server; 0 once one has begun."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def submit(self, bundle: Bundle) -> Future[bytes]:
        """Queue a bundle for a packed report. The future raises WorkerLost, or NotBegun if nothing ran."""
        return self._threads.submit(self._run, pickle.dumps(bundle))

    def _run(self, packed: bytes) -> bytes:
        pipe: Pipe | None = None
        try:
            pipe = self._take()
            pipe.give(packed)
            self._since = None
            report = pipe.take()
        except (EOFError, OSError) as error:
            lost = WorkerLost("the server of the workers is gone") if pipe is None else pipe.end()
            if self._stopped or (pipe is not None and pipe.begun):
                raise lost from error
            time.sleep(PAUSE)  # whatever keeps workers from beginning can pass in a moment
            said = self._server.reason()
            raise NotBegun(f"{lost}{said and f': {said}'}") from error
        if report.endswith(SPENT):
            pipe.end()
        else:
            self._idle.append(pipe)
        return report

    def _take(self) -> Pipe:
        """A worker that is idle, or a new one."""
        with self._lock:
            if self._stopped:
                raise WorkerLost("the run is being stopped")
            while self._idle:
                pipe = self._idle.pop()
                if not pipe.is_gone:
                    return pipe
                pipe.end()
            if ended := self._server.ended:
                said = self._server.reason()
                why = f"{ended}{said and f': {said}'}"
                self.news.put(f"the server that workers are forked from {why}; it is started again")
                self._server.stop()
                self._server.close()
                self._server, self._since = WorkerServer(self._environ), time.monotonic()
            return self._server.fork()

    def stop(self) -> None:
        """Ends the processes; whoever waits for a bundle gets WorkerLost."""
        self._stopped = True
        with self._lock:
            self._server.stop(PATIENCE if self._since is None else 0.0)
        self._threads.shutdown()
        for pipe in self._idle:
            pipe.close()
        self._server.close()


class WorkerServer:
    """One server process (`diel/worker/server.py`)."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._requests, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = open(os.memfd_create("diel-workers"), "rb", buffering=0)  # noqa: SIM115
        with there:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", "diel.worker", str(os.getpid()), str(there.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[there.fileno()],
                start_new_session=True,
                env=environ,
            )

    @property
    def ended(self) -> str:
        """How it ended; empty while it is alive."""
        code = self._process.poll()
        return "" if code is None else _how(code)

    def fork(self) -> Pipe:
        """Asks for a worker. Raises OSError if the server is gone."""
        pipe = Pipe()
        with pipe.far_end, pipe.telling:
            given = [pipe.far_end.fileno(), pipe.telling.fileno()]
            socket.send_fds(self._requests, [b"worker"], given)
        return pipe

    def reason(self) -> str:
        """The last line that it or its workers printed before they had files for that."""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._said.fileno()).st_size
            said = os.pread(self._said.fileno(), 8 * REASON, max(0, size - 8 * REASON))
            lines = said.decode("utf-8", "replace").strip().splitlines()
            return lines[-1][-REASON:] if lines else ""
        return ""

    def stop(self, patience: float = PATIENCE) -> None:
        """Ends it with all its workers, within some seconds; can be called again."""
        with contextlib.suppress(OSError):
            self._requests.send(b"end")
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its workers go with it
            self._process.wait()
        self._requests.close()

    def close(self) -> None:
        """Closes the file that it printed to."""
        self._said.close()


class Pipe:
    """A worker, as its controller sees it."""

    def __init__(self) -> None:
        self._end, self.far_end = socket.socketpair()
        told, telling = os.pipe()
        self._told = open(told, "rb", buffering=0)  # noqa: SIM115
        self.telling = open(telling, "wb", buffering=0)  # noqa: SIM115
        self._process = 0

    @property
    def begun(self) -> bool:
        """Whether the worker ever had a bundle that it could run."""
        return self._process != 0

    @property
    def is_gone(self) -> bool:
        """Whether the worker is known to have ended."""
        return is_readable(self._told.fileno())

    def give(self, packed: bytes) -> None:
        """Hand over a packed bundle, and wait until it begins. Raises EOFError or OSError."""
        send(self._end, packed)
        if not self._process:
            self._process = int(receive(self._end, self._told.fileno()))

    def take(self) -> bytes:
        """The report of the bundle. Raises EOFError or OSError if the worker ends meanwhile."""
        return receive(self._end, self._told.fileno())

    def close(self) -> None:
        self._end.close()
        self._told.close()

    def end(self) -> WorkerLost:
        """Makes sure that the worker has ended; returns how."""
        self._end.close()
        if self._process and not self.is_gone:  # its own end may be closed, by a module that closes all
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
        code = self._told.read() if is_readable(self._told.fileno(), PATIENCE) else b""
        self._told.close()
        if not code and self._process:  # the server went first: the kernel is at killing its workers
            with contextlib.suppress(psutil.Error):
                wait_ended([psutil.Process(self._process)], PATIENCE)
        name = f"worker process {self._process}" if self._process else "a worker process"
        how = _how(int(code)) if code else "ended with its server"
        return WorkerLost(f"{name} {how}", killed=code == b"%d" % -signal.SIGKILL)


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
