"""Runs a module of Parsl's as a script: the worker pool of a node, or the interchange.

    python -m diel.backends.executors.script pool MODULE [ARG…]
    python -m diel.backends.executors.script tied PARENT MODULE [ARG…]

The pool's workers are forks of one server, and not each a new Python that imports everything again. The
interchange ends with PARENT, and the pools that it served follow once they miss its heartbeat.

Outside its run the pool of a node makes a directory for its sockets, and named semaphores. Python's
multiprocessing leaves both where its processes are killed. The node's keeper names and removes them; for one
that was killed, whose lock the kernel let go, the next keeper on that node does.
"""

import contextlib
import fcntl
import logging
import multiprocessing
import os
import runpy
import shutil
import signal
import sys
import tempfile
import threading
import time
from multiprocessing import process
from pathlib import Path
from typing import Any

from diel.worker.die_with_parent import tie

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


NOISE = ("ignore::RuntimeWarning:runpy", "ignore::UserWarning:multiprocessing.resource_tracker")
"""Python's warnings about preloaded modules and killed pools, which would hide why a block ended."""


def _prepare_pool() -> None:
    """Make the pool fork from a server where it asks for `spawn`."""
    use()
    sys.warnoptions.extend(NOISE)  # multiprocessing hands them to its own processes
    server, other = multiprocessing.get_context("forkserver"), multiprocessing.get_context
    server.set_forkserver_preload(["diel.backends.executors.preload"])

    def get_context(method: str | None = None) -> Any:
        return server if method == "spawn" else other(method)

    multiprocessing.get_context = get_context


def _follow(parent: int) -> None:
    """For systems whose kernel does not signal a parent's end."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def _tie_to(parent: int) -> None:
    """Tie this process to its parent, before the slow imports."""
    if not tie(parent, signal.SIGKILL):
        sys.exit()
    with contextlib.suppress(OSError):
        os.setsid()  # Ctrl-C in a terminal is for the controller, which then ends this process itself
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def main() -> None:
    """Run the module that the command line names, with the remaining words."""
    _, kind, *words = sys.argv
    if kind == "pool":
        _prepare_pool()
    else:
        _tie_to(int(words.pop(0)))
    sys.argv = words
    logging.raiseExceptions = False  # a line of a log that cannot be written, as on a full disk, is dropped
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
