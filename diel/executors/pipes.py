"""Warm worker processes at the ends of pipes, one for each thread of a thread pool."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from queue import Empty, SimpleQueue
from typing import cast

from diel.errors import DielError


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
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(packed, process.stdin)
            process.stdin.flush()
            return cast("bytes", pickle.load(process.stdout))
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
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
