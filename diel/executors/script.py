"""Runs a module of Parsl's as a script: the worker pool of a node, or the interchange.

    python -m diel.executors.script pool MODULE [ARG…]
    python -m diel.executors.script tied PARENT MODULE [ARG…]

The pool's workers are forks of one server, and not each a new Python that imports everything again. The
interchange ends with PARENT, and the pools that it served follow once they miss its heartbeat.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import runpy
import signal
import sys
import threading
import time
from typing import Any

from diel.executors.scratch import use
from diel.worker.tied import tie

NOISE = ("ignore::RuntimeWarning:runpy", "ignore::UserWarning:multiprocessing.resource_tracker")
"""Python's warnings about preloaded modules and killed pools: the end of a block's output should say why the
block ended."""


def _prepare_pool() -> None:
    """Make the pool fork from a server where it asks for `spawn`."""
    use()
    sys.warnoptions.extend(NOISE)  # multiprocessing hands them to its own processes
    server, other = multiprocessing.get_context("forkserver"), multiprocessing.get_context
    server.set_forkserver_preload(["diel.executors.preload"])

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
