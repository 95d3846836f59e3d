"""The states of a task and of a run. A scheduler's job states are never mixed with these."""

from enum import IntEnum, StrEnum


class TrialState(StrEnum):
    """The state of a trial."""

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"


class TaskState(IntEnum):
    """The state of a task: one byte."""

    WAITING = 0
    READY = 1
    QUEUED = 2
    RUNNING = 3
    DONE = 4
    CACHED = 5
    FAILED = 6
    SKIPPED = 7
    CANCELLED = 8

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def ended(self) -> bool:
        """Whether the task is over in this run."""
        return self >= TaskState.DONE

    @property
    def good(self) -> bool:
        """Whether the task has a committed result."""
        return self in (TaskState.DONE, TaskState.CACHED)


class RunState(StrEnum):
    """The state of a run. `interrupted` means that its controller is gone."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)

    @property
    def live(self) -> bool:
        """Whether the run continues on its own."""
        return self in (RunState.PENDING, RunState.RUNNING)


EXIT_CODES = {
    RunState.PENDING: 4,
    RunState.RUNNING: 4,
    RunState.SUCCEEDED: 0,
    RunState.FAILED: 1,
    RunState.CANCELLED: 3,
    RunState.INTERRUPTED: 130,
}
"""The exit code of a command that waits for a run, or asks for its state."""


class FailureClass(StrEnum):
    """Why an attempt did not end with a committed result."""

    APP = "app"
    """The program itself failed."""
    OOM = "oom"
    """It needed more memory than it had."""
    WALLTIME = "walltime"
    """Its walltime, or its block, ended before it did."""
    TIMEOUT = "timeout"
    """It ran longer than the stage's `timeout`."""
    NODE = "node"
    """Its worker or node was lost, or it was killed from outside."""
    PREEMPTED = "preempted"
    """The scheduler took its block away for others."""
    LAUNCH = "launch"
    """It could not be started."""
    UPSTREAM = "upstream"
    """What it reads is missing, or makes no sense."""
    CHANGED = "changed"
    """A file that it reads is not what it was when it was made, or when the run first read it."""
    CANCELLED = "cancelled"
    """A user stopped it."""
    INTERRUPTED = "interrupted"
    """Not a failure: it stopped at a checkpoint, and continues as another attempt."""


FINAL = "for the whole run; `diel run`"
"""What the message of a failure holds that no resume mends."""
