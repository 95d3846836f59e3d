"""Ends processes, a whole group and whatever escaped from it, and finds what ended others.

Every process of a task carries DIEL_TASK_DIR and every process of a run DIEL_RUN_DIR in its environment.

A program does not send itself SIGKILL or SIGTERM by mistake. A shell hands on how its program ended, as 128
and the signal. MPI launchers tell less: mpiexec (5.0) joins signals bit by bit, srun gives the highest code
(docs/decisions/031). The kernel only counts what it kills for want of memory: a SIGKILL of unknown origin is
put down to that where a counter of this process's cgroups or of the machine grew.
"""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import psutil

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_PR_SET_CHILD_SUBREAPER = 36
LEFT: set[int] = set()
"""What tasks left behind and could not be ended."""
_strangers: set[int] = set()
"""All children of this process that are not of the command or function that runs now."""
_adopts = False


def signal_group(group: int, number: int) -> None:
    """Signal a process group that may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def ask_group(group: int) -> None:
    """Send SIGTERM to those of a process group that handle it, so that a shell waits; to all if none does."""
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


def ask_leader(group: int) -> None:
    """Send SIGTERM to the first process of a group, if it handles that."""
    if _handles(group, signal.SIGTERM):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(group, signal.SIGTERM)


def _handles(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            masks = [line.split()[1] for line in file if line.startswith("SigCgt:")]
    except OSError:
        return False
    return bool(masks and int(masks[0], 16) >> (number - 1) & 1)


def mark(run_dir: Path) -> dict[str, str]:
    """Return this process's environment with a run's mark, which it has not itself: it may be a notebook."""
    return {**os.environ, "DIEL_RUN_DIR": str(run_dir)}


def marked(variable: str, value: str, without: str | None = None) -> Iterator[psutil.Process]:
    """Find this user's processes with a variable, but its own ancestors and those that have `without`."""
    mine = {os.getpid()}
    for pid in _showing(os.fsencode(f"{variable}={value}")):
        with contextlib.suppress(psutil.Error, OSError):
            if len(mine) == 1:
                mine |= {parent.pid for parent in psutil.Process().parents()}
            process = psutil.Process(pid)
            environ = {} if pid in mine else process.environ()
            if environ.get(variable) == value and (without is None or without not in environ):
                yield process


def _showing(text: bytes) -> Iterator[int]:
    """Find the processes with this in their environments; twice those that just begin another program."""
    pids = psutil.pids()
    for pause in (0.005, 0.0):
        bare = []
        for pid in pids:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                shown = file.read()  # psutil takes ten times as long for each
                if text in shown:
                    yield pid
                elif not shown:
                    bare.append(pid)
        time.sleep(pause if bare else 0.0)
        pids = bare


def end_marked(variable: str, value: str, grace: float = GRACE) -> int:
    """End all processes with this environment variable; return how many there were."""
    processes = list(marked(variable, value))
    end_all(processes, grace)
    return len(processes)


def end_all(processes: list[psutil.Process], grace: float = GRACE) -> None:
    """End processes with SIGTERM, then with SIGKILL."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    for process in wait_ended(processes, grace):
        with contextlib.suppress(psutil.Error):
            process.kill()
    wait_ended(processes, grace)


def kill_marked(variable: str, value: str, without: str | None = None) -> int:
    """Kill all processes with this environment variable, and those that they start meanwhile."""
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
    """Wait for processes to end; return those that did not. A zombie has ended."""
    end = time.monotonic() + seconds
    while (living := [process for process in processes if lives(process)]) and time.monotonic() < end:
        time.sleep(0.01)
    return living


def lives(process: psutil.Process) -> bool:
    """Return whether a process has not ended; a zombie has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def kill_children() -> None:
    """Kill every descendant of this process."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.send_signal(signal.SIGKILL)


LEAST = 64 * 1024
"""A file system with fewer free bytes counts as full."""


def is_full(folder: str) -> bool:
    """Return whether the file system of a folder has no room left."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < LEAST


_BY_LAUNCHER = re.compile(r"KILLED BY SIGNAL: 9\b|signal 9\b|: Killed\b")
_BANNER = re.compile(r"^YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\n", re.MULTILINE)
_OTHERWISE = re.compile(r"^srun: error: .*: tasks? [0-9,-]+: (?!Killed|Terminated)", re.MULTILINE)


def killer_of(exit_code: int | None, stderr: str, *, launched: bool) -> signal.Signals | None:
    """Return the signal from outside that ended a program; None if none. `launched` by MPI, words tell it."""
    if launched:
        killed = exit_code == 128 + signal.SIGKILL or _BY_LAUNCHER.search(stderr)
        return signal.SIGKILL if killed and not _OTHERWISE.search(stderr) else None
    return next((n for n in (signal.SIGKILL, signal.SIGTERM) if exit_code == 128 + n), None)


def message_of_mpiexec(stdout: str) -> str:
    """Return what MPICH's mpiexec says about a rank that a signal ended, on its program's standard output."""
    return "".join(_BANNER.findall(stdout))


MOMENTS = 10.0
"""Seconds for which a kill can at least explain the loss of a worker."""
_CGROUPS = Path("/sys/fs/cgroup")
_VMSTAT = Path("/proc/vmstat")
_COUNT = re.compile(rb"^oom_kill (\d+)", re.MULTILINE)
_SAID = re.compile(r"oom[-_ ]kill|out of memory", re.IGNORECASE)


class OomKills:
    """Counts out-of-memory kills since a mark."""

    def __init__(self, files: tuple[Path, ...] | None = None) -> None:
        self._files = _counters() if files is None else files
        self._marked = self._read()

    def mark(self) -> None:
        """Count from now on."""
        self._marked = self._read()

    def grew(self) -> bool:
        """Return whether there was such a kill since the last mark."""
        return any(now > before for now, before in zip(self._read(), self._marked, strict=True))

    def _read(self) -> list[int]:
        return [_count(path) or 0 for path in self._files]

    def evidence(self, exit_code: int | None, stderr: str, *, launched: bool, words: str = "") -> str:
        """Say why a program seems killed for lack of memory; empty if not. `words` is a pattern for it."""
        flags = re.IGNORECASE | re.MULTILINE
        match = re.search(f"^.*(?:{words}).*$", stderr, flags) if launched and words else None
        if match is not None:
            return match.group().strip()[:200]
        if killer_of(exit_code, stderr, launched=launched) != signal.SIGKILL:
            return ""
        if _SAID.search(stderr):
            return "as its standard error says"
        return "the system killed for lack of memory while it ran" if self.grew() else ""


class RecentOomKills:
    """Whether there was such a kill in the last moments, for occasional looks."""

    def __init__(self) -> None:
        self._older, self._newer = OomKills(), OomKills()
        self._since = time.monotonic()

    def look(self) -> None:
        """Call it often: it costs nothing most of the time."""
        if time.monotonic() - self._since > MOMENTS:
            self._older, self._newer = self._newer, OomKills()
            self._since = time.monotonic()

    def grew(self) -> bool:
        return self._older.grew()

    def forget(self) -> None:
        """Forget past kills: each explains one loss, not the next ones."""
        self._older.mark()
        self._newer.mark()


def _counters() -> tuple[Path, ...]:
    """Return the readable files with counters: this process's cgroups, outwards, and the machine."""
    counters = [_VMSTAT]
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(","):
            counters += _outwards(_CGROUPS / "memory", group, "memory.oom_control")
        elif not controllers:
            counters += _outwards(_CGROUPS, group, "memory.events")
    return tuple(path for path in counters if _count(path) is not None)


def _outwards(mount: Path, group: str, name: str) -> list[Path]:
    inner = mount / group.strip("/")
    return [place / name for place in (inner, *inner.parents) if place.is_relative_to(mount)]


def _count(path: Path) -> int | None:
    try:
        match = _COUNT.search(path.read_bytes())
    except OSError:  # its cgroup is gone
        return None
    return None if match is None else int(match[1])


def adopt() -> bool:
    """Make this process adopt what its children leave behind; return whether it does."""
    global _adopts
    if not _adopts and (_adopts := _set_subreaper()):
        _strangers.update(_children())
    return _adopts


def _set_subreaper() -> bool:
    try:
        import ctypes  # here, because a Python without it still runs tasks

        done = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        _children()  # which not every kernel lists
        return bool(done)
    except (ImportError, OSError, AttributeError):
        return False


def orphans() -> set[int]:
    """Return what the running command left behind so far, and the command itself until it is reaped."""
    children = _children() if _adopts else set()
    if _strangers:
        _strangers.intersection_update(children)  # a number is given again
    return children - _strangers


def end_unlisted(command: int) -> None:
    """End what a command left in its group, where this process does not adopt it and so cannot list it."""
    if command and not _adopts:
        signal_group(command, signal.SIGKILL)


def go_on(processes: set[int]) -> None:
    """Note children that outlive what began them: they are of no later command or function."""
    _strangers.update(processes)


def has_children() -> bool:
    """Return whether this process has any child, ended or not."""
    return bool(_children())


def _children() -> set[int]:
    """Return the children of this process, ended ones too: its first thread gets what is adopted."""
    process = os.getpid()
    listed = kernel_file(f"task/{process}/children", process)
    return set(map(int, os.pread(listed, 1 << 16, 0).split()))


@cache
def kernel_file(name: str, process: int, flags: int = os.O_RDONLY) -> int:
    """Open a file of a process in /proc once: opening takes several times as long as reading."""
    return os.open(f"/proc/{process}/{name}", flags)
