"""What the pool of a node makes outside its run: a directory for its sockets, and named semaphores.

Python's multiprocessing leaves both where its processes are killed. The node's keeper names and removes them;
for one that was killed, whose lock the kernel let go, the next keeper on that node does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from multiprocessing import process
from pathlib import Path

PREFIX = "dielpool-"
VARIABLE = "DIEL_POOL_SCRATCH"
SEMAPHORES = Path("/dev/shm")
LONGEST = 107 - len("/dielpool-12345678/listener-12345678")
"""The longest path, in bytes, of a temporary directory in which the pool can still make sockets."""


class Scratch:
    """One of them, and its lock."""

    def __init__(self) -> None:
        """Make it, and remove those that killed keepers left behind."""
        for folder in _folder().glob(f"{PREFIX}*"):
            _remove_left(folder)
        self.path, self._lock = _make()
        while not self.path.exists():  # another keeper thought it was left behind before it was locked
            os.close(self._lock)
            self.path, self._lock = _make()

    def remove(self) -> None:
        _remove(self.path)
        os.close(self._lock)


def use() -> None:
    """Make multiprocessing, here and in children, use this node's directory."""
    folder = os.environ.pop(VARIABLE, "")
    if folder:
        config = process.current_process()._config  # type: ignore[attr-defined]
        config["tempdir"], config["semprefix"] = folder, f"/{os.path.basename(folder)}"


def _folder() -> Path:
    folder = tempfile.gettempdir()
    return Path(folder if len(os.fsencode(folder)) <= LONGEST else "/tmp")


def _make() -> tuple[Path, int]:
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_folder()))
    lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return path, lock


def _remove_left(path: Path) -> None:
    with contextlib.suppress(OSError):  # it is another user's, or its keeper lives
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        finally:
            os.close(lock)


def _remove(path: Path) -> None:
    for semaphore in SEMAPHORES.glob(f"sem.{path.name}*"):
        with contextlib.suppress(OSError):
            semaphore.unlink()
    shutil.rmtree(path, ignore_errors=True)
