"""The states of a task and of a run. A scheduler's job states are never mixed with these."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class TaskState(IntEnum):
    """Where a task is; one byte a task."""

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
        """Whether nothing will happen to the task any more in this run."""
        return self >= TaskState.DONE

    @property
    def good(self) -> bool:
        """Whether the task has a committed result."""
        return self in (TaskState.DONE, TaskState.CACHED)


class RunState(StrEnum):
    """Where a run is. `interrupted` means that its controller is gone."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)


class FailureClass(StrEnum):
    """Why an attempt did not end with a committed result."""

    APP = "app"
    TIMEOUT = "timeout"
    NODE = "node"
    LAUNCH = "launch"
    UPSTREAM = "upstream"
    CANCELLED = "cancelled"
