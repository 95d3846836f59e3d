"""What tasks leave behind: a worker adopts it (PR_SET_CHILD_SUBREAPER, prctl(2)) if only a task runs."""

from __future__ import annotations

import os
from functools import cache

PR_SET_CHILD_SUBREAPER = 36
LEFT: set[int] = set()
"""What commands left behind, as long as it goes on."""
_others: set[int] = set()
"""All children of this process that are not of the command that runs now."""
_adopts = False


def adopt(on: bool) -> bool:
    """Makes this process adopt what its children leave behind, or not; returns whether it does."""
    global _adopts
    if on != _adopts:
        _adopts = _set(on) and on
        _others.clear()
        _others.update(_children() if _adopts else ())
    return _adopts


def _set(on: bool) -> bool:
    try:
        import ctypes  # here, because a Python without it still runs tasks

        done = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0
        _children()  # which not every kernel lists
        return bool(done)
    except (ImportError, OSError, AttributeError):
        return False


def orphans() -> set[int]:
    """What the running command left behind so far, ended or not; and the command, until it is waited for."""
    return _children() - _others if _adopts else set()


def settle(going_on: set[int]) -> None:
    """These go on after their command. Waits for those that have ended, of any."""
    LEFT.update(going_on)
    _others.update(going_on)
    for orphan in [*LEFT]:
        try:
            ended = os.waitpid(orphan, os.WNOHANG)[0]
        except ChildProcessError:
            ended = orphan
        if ended:
            LEFT.discard(orphan)
            _others.discard(orphan)


def has_children() -> bool:
    """Whether this process has any child, ended or not."""
    return bool(_children())


def _children() -> set[int]:
    """The children of this process, with those that have ended: its first thread gets what is adopted."""
    process = os.getpid()
    listed = kernel_file(f"task/{process}/children", process)
    return set(map(int, os.pread(listed, 1 << 16, 0).split()))


@cache
def kernel_file(name: str, process: int, flags: int = os.O_RDONLY) -> int:
    """Open a file of a process in /proc once: opening takes several times as long as reading."""
    return os.open(f"/proc/{process}/{name}", flags)
