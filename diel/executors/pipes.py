"""Warm worker processes at the ends of pipes, one for each thread of a thread pool."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from queue import Empty, SimpleQueue

from diel.errors import DielError

LENGTH = 8
"""Bytes before a report that tell how long it is."""
CHUNK = 1024 * 1024


class WorkerLost(DielError):
    """A worker process ended while it had a bundle."""


class Pipes:
    """Worker processes, started at once so that they are ready by the time Parsl is imported."""

    def __init__(self, workers: int) -> None:
        self._local = threading.local()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._spare: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._stopped = False
        for _ in range(workers):
            self._spare.put(self._start())

    def run(self, packed: bytes) -> bytes:
        """Runs a packed bundle in this thread's worker. Raises WorkerLost where that ends meanwhile."""
        if self._stopped:
            raise WorkerLost("the run is being stopped")
        process = self._process()
        assert process.stdin is not None
        try:
            pickle.dump(packed, process.stdin)
            process.stdin.flush()
            return _receive(process)
        except (EOFError, OSError, ValueError) as error:
            process.kill()
            raise WorkerLost(f"worker process {process.pid} ended with {process.wait()}") from error

    def _process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] | None = getattr(self._local, "process", None)
        if process is None or process.poll() is not None:
            try:
                process = self._spare.get_nowait()
            except Empty:
                process = self._start()
            self._local.process = process
        return process

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "diel.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=dict(os.environ),
        )
        self._processes.append(process)
        return process

    def stop(self) -> None:
        """Ends the processes; a thread that waits for one gets WorkerLost."""
        self._stopped = True
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()


def _receive(process: subprocess.Popen[bytes]) -> bytes:
    """The worker's next report: eight bytes that give its length, then itself.

    Raises EOFError as soon as the process is gone: the pipe alone does not tell, for a child that a
    module forked may hold its other end open.
    """
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    gone = os.pidfd_open(process.pid)
    try:
        watch = select.poll()
        watch.register(pipe, select.POLLIN)
        watch.register(gone, select.POLLIN)
        data = bytearray()
        while len(data) < LENGTH or len(data) < LENGTH + int.from_bytes(data[:LENGTH]):
            ready = [number for number, _ in watch.poll()]
            chunk = os.read(pipe, CHUNK) if pipe in ready else b""
            if not chunk:
                raise EOFError
            data += chunk
    finally:
        os.close(gone)
    return bytes(data[LENGTH:])
