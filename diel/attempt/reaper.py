"""Ending processes: a whole group, and whatever escaped from it.

Every process of a task carries DIEL_TASK_DIR and every process of a run DIEL_RUN_DIR in its
environment, so that one which made a session of its own is found all the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""


def signal_group(group: int, number: int) -> None:
    """Signals a process group that may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def ask_group(group: int) -> None:
    """Sends SIGTERM to those of a process group that handle it; to all, where none does.

    A shell or script that only waits for the program which will save its state must not die before.
    """
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == group:
                members.append(pid)
    handling = [pid for pid in members if _handles(pid, signal.SIGTERM)]
    if not handling:
        signal_group(group, signal.SIGTERM)
    for pid in handling:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)


def _handles(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            masks = [line.split()[1] for line in file if line.startswith("SigCgt:")]
    except OSError:
        return False
    return bool(masks and int(masks[0], 16) >> (number - 1) & 1)


def mark(run_dir: Path) -> dict[str, str]:
    """This process's environment with the mark of a run, for the processes that it starts for that run.

    It is not marked itself: it may be somebody's notebook, with other children.
    """
    return {**os.environ, "DIEL_RUN_DIR": str(run_dir)}


def marked(variable: str, value: str, without: str | None = None) -> Iterator[psutil.Process]:
    """This user's processes with this environment variable, this process and its ancestors apart.

    `without` names a variable that spares the processes which have it.
    """
    mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        if process.pid in mine:
            continue
        with contextlib.suppress(psutil.Error, OSError):
            environ = process.environ()
            if environ.get(variable) == value and (without is None or without not in environ):
                yield process


def end_marked(variable: str, value: str, grace: float = GRACE) -> int:
    """Ends all processes with this environment variable; returns how many there were."""
    processes = list(marked(variable, value))
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    for process in wait_ended(processes, grace):
        with contextlib.suppress(psutil.Error):
            process.kill()
    wait_ended(processes, grace)
    return len(processes)


def kill_marked(variable: str, value: str, without: str | None = None) -> int:
    """Kills all processes with this environment variable, and those that they start meanwhile."""
    killed = 0
    end = time.monotonic() + 10
    while (processes := list(marked(variable, value, without))) and time.monotonic() < end:
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        wait_ended(processes, GRACE)
        killed += len(processes)
    return killed


def wait_ended(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Waits for processes to end; returns those that did not. A zombie has ended."""
    end = time.monotonic() + seconds
    while (left := [one for one in processes if _lives(one)]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def kill_children() -> None:
    """Kills every descendant of this process."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.send_signal(signal.SIGKILL)
