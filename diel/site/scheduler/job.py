"""A job: its request to the scheduler, its script, and what the scheduler says about it."""

import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from diel.base.errors import DielError


class SchedulerBusy(DielError):
    """The scheduler does not answer, or makes no sense: ask again later. It says nothing about a job."""


class SchedulerRefused(DielError):
    """The scheduler answered, and refuses a job: the same request again would be refused too."""


class Job(NamedTuple):
    """A request to a scheduler."""

    name: str
    """At most 15 characters, a letter first: what every scheduler takes."""
    command: str
    """Shell text that the job runs once, on its first node."""
    folder: Path
    """Working directory; the job's script and output are there as well."""
    stdout: Path
    stderr: Path
    nodes: int
    cores: int
    """Cores of each node."""
    walltime: float
    """Seconds."""
    gpus: int = 0
    """GPUs of each node."""
    memory: int = 0
    """Bytes on each node; 0 leaves it to the scheduler."""
    queue: str | None = None
    account: str | None = None
    options: tuple[str, ...] = ()
    """Further options, as in the scheduler's own directive lines, with {nodes} to be filled in. If one says
    which nodes the job gets, a scheduler can leave out its own words for that."""
    setup: tuple[str, ...] = ()
    """Shell lines before the command."""
    exclude: tuple[str, ...] = ()
    """Nodes that the job must not get."""
    after: str | None = None
    """Id of a job that must have ended before."""

    @property
    def extra(self) -> tuple[str, ...]:
        """Its further options, filled in."""
        return tuple(word.replace("{nodes}", str(self.nodes)) for word in self.options)


class JobState(StrEnum):
    """The state of a job, whatever its scheduler calls it. Not a task's state: see `diel.base.states`."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OOM = "oom"
    NODE_FAILED = "node_failed"
    PREEMPTED = "preempted"
    GONE = "gone"
    """The scheduler no longer knows it, and nothing says how it ended."""

    @property
    def ended(self) -> bool:
        return self not in (JobState.PENDING, JobState.RUNNING, JobState.ENDING)


def states(**words: str) -> Mapping[str, JobState]:
    """Return a table of a scheduler's words for states, by their meaning: `pending="Q H W"`."""
    return {word: JobState(state) for state, listed in words.items() for word in listed.split()}


class JobStatus(NamedTuple):
    """What a scheduler says about a job."""

    state: JobState
    reason: str = ""
    """The scheduler's own words: why it waits, or why it ended."""
    exit_code: int | None = None
    nodes: str = ""
    """The nodes that it has, as the scheduler writes them."""
    hopeless: bool = False
    """Whether the scheduler says that it can never run."""

    @property
    def words(self) -> str:
        """The state, with the reason if there is one."""
        return f"{self.state} ({self.reason})" if self.reason else str(self.state)


def clock(seconds: float) -> str:
    """HH:MM:SS, rounded up to whole seconds; hours may be more than 24, as all schedulers allow."""
    whole = max(1, -int(-seconds // 1))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def mebibytes(size: int) -> int:
    """Return bytes as MiB, rounded up: what Slurm's M and PBS's mb both mean."""
    return -(-size // 2**20)


def quoted(path: Path) -> str:
    """Return a path in double quotes, as a directive holds it.

    Raise SchedulerRefused for a path with a line break, a double quote or a backslash: schedulers read
    those in different ways, and Slurm would lose the job's output.
    """
    text = str(path)
    if any(ord(letter) < 32 or letter in '"\\' for letter in text):
        hint = "use a path without line breaks, quotes and backslashes"
        raise SchedulerRefused(f"a job script cannot name {text!r}: {hint}")
    return f'"{text}"'


def check_outputs(script: Path, named: re.Pattern[str]) -> tuple[str, ...]:
    """Return the output files of a script's directives. Raise SchedulerRefused if one's folder is missing.
    The scheduler would say nothing, and the job's output, or the job, would be lost."""
    files = tuple(shlex.split(value)[0] for value in named.findall(script.read_text(encoding="utf-8")))
    for file in files:
        folder = (script.parent / file.replace("%%", "%")).parent
        if not folder.is_dir():
            raise SchedulerRefused(f"{script}: its output cannot go to {folder}: make that folder")
    return files
