"""What commands leave behind: a worker adopts it (PR_SET_CHILD_SUBREAPER, prctl(2)), so that it knows of it.

Not while it runs anything else: a function may wait for any child, and would meet others than its own.
"""

from __future__ import annotations

import contextlib
import os

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
        _others.update(_children())
    return _adopts


def _set(on: bool) -> bool:
    try:
        import ctypes  # here, because a Python without it still runs tasks

        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def orphans() -> set[int]:
    """What the running command left behind so far, ended or not; and the command, until it is waited for."""
    return _children() - _others if _adopts else set()


def settle(going_on: set[int]) -> bool:
    """These go on after their command; returns whether none does, of any. Waits for those that have ended."""
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
    return not LEFT


def _children() -> set[int]:
    """The children of this process, with those that have ended."""
    found: set[int] = set()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb") as file:
                found.update(map(int, file.read().split()))
    except OSError:  # it has none, as a rule; or there is no such place
        pass
    return found
