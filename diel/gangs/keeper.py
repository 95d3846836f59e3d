"""Keeps a process up: the broker of a run, which may be killed like everything else."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from diel.errors import DielError

AGAIN = 0.2
"""Seconds between the end of a process and its next start; doubles while it ends at once."""
LONGEST = 5.0
STEADY = 10.0
"""Seconds after which a process counts as well started."""
STOP_SECONDS = 5.0


class Keeper:
    """Starts a program, and starts it again whenever it ends, until it is told to stop.

    In a thread of its own: the controller may just be waiting for the program's answer.
    """

    def __init__(self, words: tuple[str, ...], log: Path, environ: Mapping[str, str]) -> None:
        self._words = words
        self._log = log
        self._environ = environ
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._process = self._begin()
        self._thread = threading.Thread(target=self._keep, name="diel-keeper", daemon=True)
        self._thread.start()

    def _begin(self) -> subprocess.Popen[bytes]:
        try:
            with open(self._log, "ab") as log:
                return subprocess.Popen(
                    self._words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env=self._environ,
                )
        except OSError as error:
            raise DielError(f"cannot start {self._words[2]}: {error}") from error

    def _keep(self) -> None:
        pause = AGAIN
        while True:
            began = time.monotonic()
            self._process.wait()
            pause = AGAIN if time.monotonic() - began > STEADY else min(2 * pause, LONGEST)
            if self._over.wait(pause):
                return
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    self._process = self._begin()
                except DielError:
                    return  # whoever asks it gives up after a while, and says so

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        with self._lock:
            self._over.set()
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
