"""Whether the system killed processes for want of memory.

The kernel says it nowhere but in counters, so that a SIGKILL of unknown origin is put down to memory
where one of them grew meanwhile: `oom_kill` of this process's cgroups (`memory.events`, or
`memory.oom_control` in the older hierarchy) and of the machine (`/proc/vmstat`).
"""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from diel.worker.killed import killer_of

MOMENTS = 10.0
"""Seconds: how long ago a kill may be, at least, that explains a worker which is found lost now."""
_CGROUPS = Path("/sys/fs/cgroup")
_VMSTAT = Path("/proc/vmstat")
_COUNT = re.compile(rb"^oom_kill (\d+)", re.MULTILINE)
_SAID = re.compile(r"oom[-_ ]kill|out of memory", re.IGNORECASE)


class OomKills:
    """Counts such kills from a mark on."""

    def __init__(self, files: tuple[Path, ...] | None = None) -> None:
        self._files = _counters() if files is None else files
        self._marked = self._read()

    def mark(self) -> None:
        """What happened until now counts no more."""
        self._marked = self._read()

    def grew(self) -> bool:
        """Whether there was such a kill since the last mark."""
        return any(now > before for now, before in zip(self._read(), self._marked, strict=True))

    def _read(self) -> list[int]:
        return [_count(path) for path in self._files]

    def evidence(self, exit_code: int | None, stderr: str, *, launched: bool, words: str = "") -> str:
        """Why a failed program is taken to have been killed for want of memory; empty where it is not.

        `launched` says whether an MPI launcher stands between, which tells what killed a rank; `words` is a
        regular expression of the scheduler's for that.
        """
        flags = re.IGNORECASE | re.MULTILINE
        said = re.search(f"^.*(?:{words}).*$", stderr, flags) if launched and words else None
        if said is not None:
            return said.group().strip()[:200]
        if killer_of(exit_code, stderr, launched=launched) != signal.SIGKILL:
            return ""
        if _SAID.search(stderr):
            return "as its standard error says"
        return "the system killed for want of memory while it ran" if self.grew() else ""


class RecentOomKills:
    """Whether there was such a kill within the last moments, for whoever looks now and then."""

    def __init__(self) -> None:
        self._older, self._newer = OomKills(), OomKills()
        self._since = time.monotonic()

    def look(self) -> None:
        """To be called often; costs nothing most of the time."""
        if time.monotonic() - self._since > MOMENTS:
            self._older, self._newer = self._newer, OomKills()
            self._since = time.monotonic()

    def grew(self) -> bool:
        return self._older.grew()

    def forget(self) -> None:
        """A kill explains one loss, not the next ones."""
        self._older.mark()
        self._newer.mark()


def _counters() -> tuple[Path, ...]:
    """The files with counters that can be read here: this process's cgroups, outwards, and the machine."""
    found = [_VMSTAT]
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(","):
            found += _outwards(_CGROUPS / "memory", group, "memory.oom_control")
        elif not controllers:
            found += _outwards(_CGROUPS, group, "memory.events")
    return tuple(path for path in found if _is_readable(path))


def _outwards(mount: Path, group: str, name: str) -> list[Path]:
    inner = mount / group.strip("/")
    return [place / name for place in (inner, *inner.parents) if place.is_relative_to(mount)]


def _is_readable(path: Path) -> bool:
    try:
        return _COUNT.search(path.read_bytes()) is not None
    except OSError:
        return False


def _count(path: Path) -> int:
    try:
        match = _COUNT.search(path.read_bytes())
    except OSError:  # its cgroup is gone
        return 0
    return int(match.group(1)) if match is not None else 0
