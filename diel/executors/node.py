"""Holds one node of a block: runs Parsl's worker pool there, and leaves no process behind.

    python -m diel.executors.node COMMAND [ARG...]

A process that made a session of its own survives the scheduler's kill (PBS sees only what it started);
every process of this node's share of the block carries DIEL_NODE, so that it is found all the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import FrameType

import psutil

from diel.executors.orphans import Orphans
from diel.worker.reaper import kill_marked, marked, wait_ended

PATIENCE = 1.0
"""Seconds that the pool gets to end by itself: schedulers kill within two to thirty."""
DRAIN = "--drain_period="
TRACKER = "multiprocessing.resource_tracker"
GPU_LISTS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


class _Ended(Exception):
    """The scheduler asks this node to end."""


def node_name() -> str:
    """This node's name: the scheduler's own, where several share one host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def main() -> None:
    """Runs the command to its end, or to the scheduler's SIGTERM; then clears the node."""
    signal.signal(signal.SIGTERM, _end)
    mark = f"{os.environ.get('DIEL_RUN_DIR', '')}:{os.environ.get('DIEL_BLOCK', '')}/{node_name()}"
    granted = next((os.environ[name] for name in GPU_LISTS if os.environ.get(name)), "")
    threading.Thread(target=Orphans(os.environ).watch, daemon=True).start()
    env = {**os.environ, "DIEL_NODE": mark, "DIEL_BLOCK_GPUS": granted}
    pool = subprocess.Popen(_aged(sys.argv[1:]), env=env)  # of this session: the scheduler sees it as well
    try:
        code = pool.wait()
    except _Ended:
        code = 128 + signal.SIGTERM
        with contextlib.suppress(ProcessLookupError):
            pool.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            pool.wait(PATIENCE)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _clear(mark)
    sys.exit(code)


def _clear(mark: str) -> None:
    """Kills what is left here; Python's trackers last, for they remove the semaphores of what was killed."""
    trackers = []
    for process in marked("DIEL_NODE", mark):
        with contextlib.suppress(psutil.Error):
            if any(TRACKER in word for word in process.cmdline()):
                trackers.append(process)
            else:
                process.kill()
    wait_ended(trackers, PATIENCE)
    kill_marked("DIEL_NODE", mark)


def _aged(words: list[str]) -> list[str]:
    """The pool's command, whose drain period counts from the block's begin and not from now."""
    try:
        age = time.time() - float(os.environ["DIEL_BLOCK_END"]) + float(os.environ["DIEL_BLOCK_WALLTIME"])
    except (KeyError, ValueError):
        return words
    return [
        f"{DRAIN}{max(1, round(float(word.removeprefix(DRAIN)) - age))}" if word.startswith(DRAIN) else word
        for word in words
    ]


def _end(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may come twice: from the node and from its spreader
    raise _Ended


if __name__ == "__main__":
    main()
