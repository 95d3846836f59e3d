"""A job: what a scheduler is asked for, and what it says of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from diel.errors import DielError


class SchedulerBusy(DielError):
    """The scheduler does not answer, or not with sense: ask again later. It says nothing of any job."""


class SchedulerRefused(DielError):
    """The scheduler answered, and refuses a job: asking again as before is of no use."""


@dataclass(frozen=True)
class Job:
    """What a scheduler is asked for."""

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
    """Further options, as the scheduler's own directive lines have them; {nodes} is put in. Where one says
    what nodes the job gets, a scheduler may leave out its own words for that."""
    setup: tuple[str, ...] = ()
    """Shell lines before the command."""
    exclude: tuple[str, ...] = ()
    """Nodes that the job must not get."""
    after: str | None = None
    """Id of a job that must have ended before."""


class JobState(StrEnum):
    """Where a job is, whatever its scheduler calls it. Not a task's state: see `diel.states`."""

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


@dataclass(frozen=True)
class JobStatus:
    """What a scheduler says of a job."""

    state: JobState
    reason: str = ""
    """The scheduler's own words: why it waits, or why it ended."""
    exit_code: int | None = None
    nodes: str = ""
    """The nodes that it has, as the scheduler writes them."""
    hopeless: bool = False
    """Whether the scheduler says that it can never run."""
