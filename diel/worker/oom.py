"""Whether the system killed processes for want of memory.

The kernel says it nowhere but in a counter, so that a SIGKILL of unknown origin is put down to memory
where that grew meanwhile: `oom_kill` of this process's cgroup (`memory.events`, or `memory.oom_control`
in the older hierarchy), which counts its processes whoever was short of memory. The machine's
(`/proc/vmstat`) counts those of others too, and is asked where there is no cgroup with a counter.
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
_GROUPS = Path("/proc/self/cgroup")
_VMSTAT = Path("/proc/vmstat")
_COUNT = re.compile(rb"^oom_kill (\d+)", re.MULTILINE)
_BY_SLURM = re.compile(r"oom[-_ ]kill|out of memory", re.IGNORECASE)
_SLURM_SAYS = re.compile(
    r"^.*(?:slurmstepd|srun): .*(?:oom[-_ ]kill|out of memory).*$", re.IGNORECASE | re.MULTILINE
)


class OomKills:
    """Counts such kills from a mark on."""

    def __init__(self, counter: Path | None = None) -> None:
        self._counter = _own_counter() if counter is None else counter
        self.mark()

    def mark(self) -> None:
        """What happened until now counts no more."""
        self._marked = _count(self._counter) or 0

    def grew(self) -> bool:
        """Whether there was such a kill since the last mark."""
        return (_count(self._counter) or 0) > self._marked

    def evidence(self, exit_code: int | None, stderr: str, *, launched: bool) -> str:
        """Why a failed program is taken to have been killed for want of memory; empty where it is not.

        `launched` says whether an MPI launcher stands between, which tells in words what killed a rank.
        """
        said = _SLURM_SAYS.search(stderr) if launched else None
        if said is not None:
            return said.group().strip()[:200]
        if killer_of(exit_code, stderr, launched=launched) != signal.SIGKILL:
            return ""
        if _BY_SLURM.search(stderr):
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


def _own_counter() -> Path:
    """The file that counts the kills in this process's cgroup; the machine's where none can be read.

    In a container the cgroup's path may be the host's: then what is mounted is its own.
    """
    try:
        lines = _GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    found: list[Path] = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(","):
            found += _outwards(_CGROUPS / "memory", group, "memory.oom_control")
        elif not controllers:
            found += _outwards(_CGROUPS, group, "memory.events")
    return next((path for path in found if _count(path) is not None), _VMSTAT)


def _outwards(mount: Path, group: str, name: str) -> list[Path]:
    inner = mount / group.strip("/")
    return [place / name for place in (inner, *inner.parents) if place.is_relative_to(mount)]


def _count(path: Path) -> int | None:
    """None where it is no counter, or its cgroup is gone."""
    try:
        match = _COUNT.search(path.read_bytes())
    except OSError:
        return None
    return None if match is None else int(match.group(1))
