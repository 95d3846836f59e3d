"""Runs Parsl's worker pool so that its workers start fast: `python -m diel.executors.pool MODULE [ARG...]`.

The pool would start each worker as a new Python that imports everything again: on a node with 64 cores,
64 times from a shared file system. Here one server process imports it once, and workers are its forks.
"""

from __future__ import annotations

import multiprocessing
import runpy
import sys
from typing import Any

from diel.executors.light import load, own
from diel.executors.scratch import use

NOISE = ("ignore::RuntimeWarning:runpy", "ignore::UserWarning:multiprocessing.resource_tracker")
"""What Python says of modules that are preloaded, and of a pool that is killed: the end of a block's output
should tell why the block ended."""


def main() -> None:
    """Runs the module as a script; what it asks `spawn` for is forked from a server."""
    sys.argv = sys.argv[1:]
    use()
    sys.warnoptions.extend(NOISE)  # multiprocessing hands them to its own processes
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["diel.executors.preload"])
    other = multiprocessing.get_context

    def get_context(method: str | None = None) -> Any:
        return server if method == "spawn" else other(method)

    multiprocessing.get_context = get_context
    own()
    load()  # not before: Parsl keeps the context that it gets
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
