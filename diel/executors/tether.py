"""Runs a Python module that ends with its parent: `python -m diel.executors.tether MODULE [ARG…]`.

Parsl's interchange would outlive a killed controller for ever; tethered, it is gone within a second,
and the worker pools that it served follow once they miss its heartbeat.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading
import time

import diel.executors.light  # noqa: F401 (what is run here loads Parsl)


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Runs the module as a script."""
    with contextlib.suppress(OSError):
        os.setsid()  # Ctrl-C in a terminal is for the controller, which then ends this process itself
    sys.argv = sys.argv[1:]
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
