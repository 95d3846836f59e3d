"""A daemon that was started directly, without systemd: known by its pid file and by its own command line."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.descendants import alive


class ClusterError(Exception):
    """The cluster cannot be brought up, or does not do what it was asked for."""


@dataclass(frozen=True)
class Daemon:
    """One daemon. `mark` is a word of its command line that no foreign process has: a pid may be reused."""

    name: str
    words: tuple[str, ...]
    pid_file: Path
    mark: str
    log: Path

    def start(self, environment: Mapping[str, str]) -> None:
        """Starts it; it goes into the background by itself. Raises ClusterError with what it said."""
        self.pid_file.unlink(missing_ok=True)
        # Sockets and pipes of the caller are not for a process that outlives it.
        done = subprocess.run(
            self.words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ClusterError(f"{self.name} does not start: {(done.stdout + done.stderr).strip()}")
        try:
            wait_until(lambda: self.process() is not None, 15)
        except TimeoutError:
            raise ClusterError(f"{self.name} ended at once; {self.last_words()}") from None

    def last_words(self) -> str:
        """The end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return f"the end of {self.log}:\n" + "\n".join(text.splitlines()[-5:])

    def process(self) -> psutil.Process | None:
        """The living process of the pid file, if it is this daemon."""
        try:
            process = psutil.Process(int(self.pid_file.read_text(encoding="utf-8").split()[0]))
            return process if alive(process) and self.mark in process.cmdline() else None
        except (OSError, ValueError, IndexError, psutil.Error):
            return None

    def kill(self) -> None:
        """Kills it with SIGKILL, and waits until it is gone."""
        process = self.process()
        if process is not None:
            kill([process])


def kill(processes: Iterable[psutil.Process], seconds: float = 10) -> None:
    """SIGKILL to all of them, until they are gone. Raises ClusterError where one is not."""
    left = list(processes)
    for process in left:
        try:
            process.kill()  # psutil compares the start time: not a process that has the pid since
        except psutil.Error:
            continue
    try:
        wait_until(lambda: not any(alive(process) for process in left), seconds)
    except TimeoutError:
        pids = [process.pid for process in left if alive(process)]
        raise ClusterError(f"processes {pids} survive SIGKILL") from None


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    """Waits until a condition holds. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.05)
