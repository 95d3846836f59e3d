"""A `diel` on a terminal of its own: what it draws, and the keys that a user presses."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable

from tests.throwaway import Project


class Terminal:
    """A terminal of 24 lines and 100 columns, and the `diel` that runs on it."""

    def __init__(self, project: Project, *words: str, **env: str) -> None:
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self._master = controller
        self.process = subprocess.Popen(
            [sys.executable, "-m", "diel", *words],
            cwd=project.folder,
            env={**project.environment(), "TERM": "xterm-256color", **env},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(terminal)
        self.raw = ""

    def read(self, until: Callable[[], object], seconds: float = 60) -> None:
        """Reads what is drawn until something holds."""
        end = time.monotonic() + seconds
        os.set_blocking(self._master, False)
        while not until():
            assert time.monotonic() < end, f"it took too long:\n{self.text}"
            with contextlib.suppress(BlockingIOError, OSError):
                self.raw += os.read(self._master, 65536).decode("utf-8", "replace")
            time.sleep(0.01)

    def press(self, key: bytes) -> None:
        os.write(self._master, key)

    def end(self) -> int:
        """Reads to the end; returns the exit code."""
        self.read(lambda: self.process.poll() is not None)
        with contextlib.suppress(BlockingIOError, OSError):
            while data := os.read(self._master, 65536):
                self.raw += data.decode("utf-8", "replace")
        self.close()
        return self.process.wait()

    def close(self) -> None:
        """Hangs up."""
        with contextlib.suppress(OSError):
            os.close(self._master)

    @property
    def text(self) -> str:
        """All that was ever drawn, without colours and cursor movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw)


def _take_terminal() -> None:
    """Makes the terminal the controlling one, so that Ctrl-C and hanging up reach the process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
