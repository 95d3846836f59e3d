"""The server that the workers of this machine are forked from, as their controller has it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping

import psutil

from diel.attempt.line import is_readable, receive, send
from diel.attempt.reaper import wait_ended

PATIENCE = 5.0
"""Seconds that processes get to end once they were killed."""
REASON = 500
"""Letters at most of what a process said before it died."""


class Server:
    """One server process (`diel/worker/server.py`). It is ready by the time that Parsl is imported."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._requests, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = open(os.memfd_create("diel-workers"), "rb", buffering=0)  # noqa: SIM115
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "diel.worker", str(os.getpid()), str(there.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[there.fileno()],
                start_new_session=True,
                env=environ,
            )

    @property
    def ended(self) -> str:
        """How it ended; empty while it lives."""
        code = self._process.poll()
        return "" if code is None else _how(code)

    def fork(self) -> Line:
        """Asks for a worker. Raises OSError where the server is gone."""
        line = Line()
        with line.far_end, line.telling:
            given = [line.far_end.fileno(), line.telling.fileno()]
            socket.send_fds(self._requests, [b"worker"], given)
        return line

    def reason(self) -> str:
        """The last line that it or its workers said before they had a place for it."""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._said.fileno()).st_size
            said = os.pread(self._said.fileno(), 8 * REASON, max(0, size - 8 * REASON))
            lines = said.decode("utf-8", "replace").strip().splitlines()
            return lines[-1][-REASON:] if lines else ""
        return ""

    def stop(self, patience: float = PATIENCE) -> None:
        """Ends it with all its workers, within some seconds. May be asked again."""
        with contextlib.suppress(OSError):
            self._requests.send(b"end")
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its workers go with it
            self._process.wait()
        self._requests.close()

    def close(self) -> None:
        """Forgets what it said."""
        self._said.close()


class Line:
    """A worker, as its controller has it."""

    def __init__(self) -> None:
        self._end, self.far_end = socket.socketpair()
        told, telling = os.pipe()
        self._told = open(told, "rb", buffering=0)  # noqa: SIM115
        self.telling = open(telling, "wb", buffering=0)  # noqa: SIM115
        self._process = 0

    @property
    def begun(self) -> bool:
        """Whether the worker ever could run something."""
        return self._process != 0

    @property
    def is_gone(self) -> bool:
        """Whether the worker is known to have ended."""
        return is_readable(self._told.fileno())

    def give(self, packed: bytes) -> None:
        """Hands a packed bundle over, and waits until the worker has begun.

        Raises EOFError or OSError where it ends meanwhile.
        """
        send(self._end, packed)
        if not self._process:
            self._process = int(receive(self._end, self._told.fileno()))

    def take(self) -> bytes:
        """The report of the bundle. Raises EOFError or OSError where the worker ends meanwhile."""
        return receive(self._end, self._told.fileno())

    def close(self) -> None:
        self._end.close()
        self._told.close()

    def end(self) -> str:
        """Makes sure that nothing is left of the worker; returns how it ended."""
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
        return f"{name} {_how(int(code)) if code else 'ended with its server'}"


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
