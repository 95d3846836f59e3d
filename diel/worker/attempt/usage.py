"""What an attempt uses: processor time, memory, bytes read and written, and GPUs where it has some.

The kernel counts all of it, for commands and what they waited for at no cost. Its peak of memory is that of
the largest process, and begins with what this process took when it started the command (setmax_mm_hiwater_rss
in fs/exec.c). What several processes take together is looked at now and then by the watchdog.
"""

import contextlib
import os
import resource
import sys
from collections.abc import Iterable
from functools import cache
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from diel.worker.attempt.gpus import Gpus, library
from diel.worker.attempt.import_meter import PAGE, OwnMemory
from diel.worker.attempt.reaper import LEFT, kernel_file, orphans

if TYPE_CHECKING:
    from diel.store.journal.records import UsageFacts

PYTHON = 10 << 20
"""Bytes that Python takes before it imports anything."""
RANKS = ".usage"
"""The directory of an attempt in which its ranks say what they used."""
LAUNCH = "--launch=0"
"""A word of `counted` that tells apart what a command starts one after the other."""
_COUNTER = str(Path(__file__).parents[1] / "usage.py")
_NEAR = 1.1
"""A peak at most so many times this process's may have been less: the kernel counts pages a little off."""
_RESET = b"5"
"""Makes the peak of this process's memory begin anew (proc_pid_clear_refs(5))."""


class Usage:
    """What one attempt has used so far. Commands are added as they end; a function is a difference."""

    _cpu = _system = 0.0
    _largest = 0
    """Bytes that the largest process took at most, as the kernel counted."""
    _together = 0
    """Bytes that all took at most when they were looked at."""
    _bound = 0
    """Bytes that commands took at most which the kernel cannot tell from this process."""
    _moved: tuple[int, int] | None = (0, 0)
    _own: "_Own | None" = None
    _keeping: OwnMemory | None = None
    _ran = False
    _gpus: Gpus | None = None

    def reap(self, child: int, left: Iterable[int] = ()) -> int:
        """Wait for a command that has ended, and add what it used with all that it waited for.

        What it `left` behind counts as well. Return the command's status."""
        before = _moved()
        _, status, used = os.wait4(child, 0)
        self._ran = True
        self._count(used)
        for orphan in left:
            with contextlib.suppress(ChildProcessError):
                ended, _, used = os.wait4(orphan, os.WNOHANG)
                if ended:
                    self._count(used)
        self._add(before, _moved())
        return status

    def _count(self, used: resource.struct_rusage) -> None:
        """Add what a process used that has ended."""
        self._cpu += used.ru_utime + used.ru_stime
        self._system += used.ru_stime
        largest = used.ru_maxrss * 1024
        if largest <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 * _NEAR:
            self._bound = max(self._bound, largest)
        else:
            self._largest = max(self._largest, largest)

    def begin(self, file: Path) -> None:
        """Begin to measure a function of a file in this process."""
        self._ran = True
        _bare(os.getpid())
        self._own, self._keeping = _Own(), OwnMemory(file)

    def end(self) -> None:
        """End the measurement."""
        if self._keeping is not None:
            self._keeping.end()

    @property
    def foreign(self) -> int:
        """Bytes of this process that only functions of other files than the running one's use."""
        return 0 if self._keeping is None else self._keeping.foreign()

    def look(self, root: int) -> int:
        """Measure what a process and its descendants take on this node now: at most so many bytes."""
        roots = {root} if root == os.getpid() else {root, *orphans()}
        processes = [process for ancestor in roots for process in (ancestor, *descendants(ancestor))]
        sizes = [resident(process) for process in processes]
        used = sum(sizes)
        if used > self._together and len(processes) > 1:  # what they share counts once
            used = max(*sizes, sum(map(proportional, processes)))
        self._together = max(self._together, used)
        self._gpus = self._gpus or Gpus(library(), os.environ)
        self._gpus.look(processes)
        return used

    def take_ranks(self, folder: str, ranks: int) -> None:
        """Take what the last ranks said of themselves; memory is added up for one launch at a time."""
        worlds = _read_ranks(f"{folder}/{RANKS}")
        counts = [count for world in worlds for count in world]
        if not counts:
            return
        cpu, system, _, read, written = map(sum, zip(*counts, strict=True))
        if cpu > self._cpu:
            self._cpu, self._system = cpu, system
        if self._moved is not None:
            self._moved = max(self._moved[0], int(read)), max(self._moved[1], int(written))
        whole = all(len(world) == ranks for world in worlds)
        together = int(max(sum(count.memory for count in world) for world in worlds))
        self._together = together if whole else max(together, self._together)

    def facts(self) -> "UsageFacts | None":
        """Return what it used, for its record; None if it ran nothing."""
        if not self._ran:
            return None
        if self._own is not None:
            self._take_own(self._own)
        facts: UsageFacts = {"cpu_seconds": round(self._cpu, 6), "system_seconds": round(self._system, 6)}
        memory = max(self._largest, self._together)
        if memory or self._bound:
            facts["memory_bytes"] = memory or self._bound
        if not memory and self._bound:
            facts["memory_at_most"] = True
        if self._moved is not None:
            facts["read_bytes"], facts["written_bytes"] = self._moved
        if self._gpus is not None:
            facts.update(self._gpus.facts())  # type: ignore[typeddict-item]
        return facts

    def _take_own(self, own: "_Own") -> None:
        """Add what happened in this process since a function began."""
        self._own = None
        now, least = _Own(), begin_peak()
        self._cpu += now.cpu - own.cpu
        self._system += now.system - own.system
        self._add(own.moved, now.moved)
        peak = now.peak if now.peak > own.peak else least
        foreign = _bare(os.getpid()) + self.foreign
        self._largest = max(self._largest, peak - foreign)
        self._together = max(0, self._together - foreign)

    def _add(self, before: list[int] | None, after: list[int] | None) -> None:
        """Add what this process counts more than before."""
        if self._moved is None or before is None or after is None:
            self._moved = None
            return
        read, written, _, _, fetched, stored, _ = map(sub, after, before)
        self._moved = self._moved[0] + max(read, fetched), self._moved[1] + max(written, stored)


def begin_peak() -> int:
    """Let this process's peak of memory begin anew, also for a command that starts next; return it."""
    with contextlib.suppress(OSError):  # another kernel
        os.write(kernel_file("clear_refs", os.getpid(), os.O_WRONLY), _RESET)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class _Own:
    """What this process has used so far, with the children that it waited for."""

    def __init__(self) -> None:
        mine, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        self.system = mine.ru_stime + children.ru_stime
        self.cpu = mine.ru_utime + children.ru_utime + self.system
        self.moved = _moved()
        self.peak = mine.ru_maxrss * 1024
        """Bytes that this process took at most since `begin_peak`."""


class RankUsage(NamedTuple):
    """What a rank said of itself."""

    cpu: float
    system: float
    memory: float
    read: float
    written: float


def _read_ranks(folder: str) -> list[list[RankUsage]]:
    """Return what the ranks of each launch said of themselves. It is removed."""
    launches: dict[str, list[RankUsage]] = {}
    with contextlib.suppress(OSError):  # another process of the task has removed it
        for name in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError, TypeError):  # a rank that was ended as it wrote
                count = RankUsage(*map(float, Path(folder, name).read_bytes().split()))
                launches.setdefault(name.partition(".")[0], []).append(count)
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
    return list(launches.values())


def counted(folder: str) -> tuple[str, ...]:
    """Return words before a rank's program that count its use in the task's directory. Raises OSError."""
    place = f"{folder}/{RANKS}"
    os.makedirs(place, exist_ok=True)
    return (sys.executable, "-IS", _COUNTER, place, LAUNCH)


def in_launches(text: str) -> str:
    """Return the same words as a shell reads them that starts ranks several times."""
    return text.replace(f" {LAUNCH}", f" {LAUNCH.rstrip('0')}$$")


@cache
def _bare(process: int) -> int:
    """Return bytes that this process took before its first attempt, beyond what any Python takes."""
    return max(0, resident(process) - PYTHON)


def _moved() -> list[int] | None:
    """Return the kernel's `io` of this process and its reaped children, in its order; None without one."""
    try:
        return list(map(int, os.pread(kernel_file("io", os.getpid()), 512, 0).split()[1::2]))
    except (OSError, ValueError):
        return None


def descendants(root: int) -> list[int]:
    """Return all descendants of a process, but not what others left to it."""
    processes = [root]
    try:
        for process in processes:  # it grows
            for thread in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                    processes += [child for child in map(int, file.read().split()) if child not in LEFT]
    except OSError:  # one has ended, or the kernel does not tell children: all processes are listed
        try:
            return [child.pid for child in psutil.Process(root).children(recursive=True)]
        except psutil.Error:
            return []
    return processes[1:]


def resident(process: int) -> int:
    """Resident bytes; 0 for a process that is gone."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0


def proportional(process: int) -> int:
    """Resident bytes, shared ones in proportion; on an old Linux, all of them."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return resident(process)
