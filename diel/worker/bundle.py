"""What the controller hands to a worker, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from diel.catalogue import Module
from diel.journal.segment import Record
from diel.spec import Resources


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of a stage share."""

    stage: str
    module: Module | None
    """The Python module; None for a command."""
    values: Mapping[str, str]
    """Declared values of a command, with their types."""
    timeout: float | None
    """Seconds after which an attempt is killed."""
    launcher: tuple[str, ...]
    """The MPI launcher's words, put before the command; empty without `ranks`."""
    threads: int
    """Cores of each process, told to OpenMP."""
    memory: int | None = None
    """Bytes that a task may take on each node; it is ended beyond them."""
    walltime: float | None = None
    """Seconds that a task may run in a block."""
    checkpoint: bool = False
    """Whether a task that is interrupted continues as another attempt."""
    grace: float = 60.0
    """Seconds before its end at which such a task is told so."""

    def within(self, resources: Resources) -> Job:
        """The same with what one attempt asked for: a retry may get more than its stage says."""
        if (self.memory, self.walltime) == (resources.memory, resources.walltime):
            return self
        return replace(self, memory=resources.memory, walltime=resources.walltime)


@dataclass(frozen=True, slots=True)
class Request:
    """One attempt at one task, with everything in it resolved."""

    index: int
    attempt: int
    key: str
    """Cache key, written into the record."""
    parts: tuple[str, str]
    """Digests of the parameters and of the inputs: the parts of the key that differ by task."""
    params: Mapping[str, Any]
    inputs: Mapping[str, Any]
    command: tuple[str, ...] | None
    outputs: Mapping[str, str]
    """Declared output files of a command, relative to the task's directory."""
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one stage that a worker runs one after the other."""

    number: int
    run_dir: str
    epoch: int
    job: Job
    requests: tuple[Request, ...]
    slice: float
    """Seconds after which the worker hands back what it has not begun."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a bundle. The records stand in the worker's segment, at these offsets."""

    segment: str
    end: int
    """How long the segment is now."""
    records: tuple[tuple[int, Record], ...]
    unstarted: tuple[int, ...]


class Failure(Exception):
    """An attempt ended without a result."""

    def __init__(self, kind: str, message: str, exit_code: int | None = None) -> None:
        self.kind = kind
        self.message = message
        self.exit_code = exit_code
        super().__init__(message)
