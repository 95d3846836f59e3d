"""A broker in a process of its own, which tests may kill and start again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Served:
    """The streams of a run folder."""

    def __init__(self, run: Path, *words: str) -> None:
        self.run = run
        self._words = words
        run.mkdir(parents=True, exist_ok=True)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "diel.streams.server", str(self.run), *self._words]
        return subprocess.Popen(words, cwd=ROOT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def start(self) -> None:
        self.process = self._start()

    def kill_and_start(self) -> None:
        self.kill()
        self.start()

    def end(self) -> None:
        """Ends it however it stands."""
        self.process.terminate()
        self.process.wait(30)
