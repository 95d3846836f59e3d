"""The birth of a process: what tells it from any other that has its number, whatever clocks say.

Linux counts the time of a birth in ticks since the machine's boot (field 22 of /proc/PID/stat, proc(5)), so
that no step of the clock and no sleep of the machine changes it. It means something only where it was
noted: within the same boot, and among processes that see the same numbers (a PID namespace: containers of one
machine may share a host name, and each has its own process 17).
"""

from __future__ import annotations

import os
from functools import cache


@cache
def _place() -> str:
    """This boot of this machine, and this PID namespace; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def birth_of(pid: int) -> str:
    """Where and when a process of this host was born; empty where it has ended, or cannot be seen."""
    found = _look(pid)
    return f"{_place()}/{found[1]}" if found is not None and _place() else ""


def lives(pid: int, birth: str) -> bool | None:
    """Whether the process with this number and birth lives; a zombie does not.

    None where nobody can know from here: it was born on another machine, before a boot or in another
    container, or it is hidden from this user.
    """
    place, _, ticks = birth.rpartition("/")
    if not place or place != _place():
        return None
    found = _look(pid)
    if found is None:
        return None if _is_hidden(pid) else False
    state, born = found
    return born == ticks and state not in "ZX"


def _look(pid: int) -> tuple[str, str] | None:
    """A process's state, as one letter, and the ticks of its birth."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # a name may hold blanks and brackets
        return fields[0].decode(), fields[19].decode()
    except (OSError, IndexError):
        return None


def _is_hidden(pid: int) -> bool:
    """Whether there is a process with this number that /proc does not show to this user (`hidepid`)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return False
