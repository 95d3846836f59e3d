"""Runs a Python module that ends with its parent: `python -m diel.executors.tether PARENT MODULE [ARG…]`.

Parsl's interchange would outlive a killed controller for ever; tethered, it is gone at once, and the worker
pools that it served follow once they miss its heartbeat. PARENT is the controller's process: whoever asks for
its parent only when it has started may be told of the one after.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading
import time

from diel.executors.light import load, own
from diel.worker.tied import tie


def _follow(parent: int) -> None:
    """For systems whose kernel tells nothing."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Runs the module as a script. The kernel is asked about the parent before the slow imports."""
    parent = int(sys.argv[1])
    if not tie(parent, signal.SIGKILL):
        return
    with contextlib.suppress(OSError):
        os.setsid()  # Ctrl-C in a terminal is for the controller, which then ends this process itself
    sys.argv = sys.argv[2:]
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    own()
    load()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
