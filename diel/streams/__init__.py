"""Streams and the tuple space: what tasks hand to each other while they run.

One broker process a run keeps order and delivery (`broker.py`); tasks and the controller talk to it through
`client.py`. ZeroMQ is imported nowhere else in diel, and here only where a stream is used. docs/streams.md
describes what travels, for programs in any language.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diel.base.errors import ModuleError

if TYPE_CHECKING:
    from diel.streams.client import TupleSpace


class StreamUser:
    """The part of a task's context for streams and the tuple space."""

    run_dir: Path
    task_id: str
    attempt: int
    rank: int
    ranks: int
    streams: Mapping[str, Mapping[str, str]] | None

    @property
    def member(self) -> str:
        """Who this process is to streams: the task, or one rank of it."""
        return self.task_id if self.ranks == 1 else f"{self.task_id}.{self.rank}"

    def stream(self, name: str) -> Any:
        """Return the task's end of a stream: a `diel.streams.Producer` of an output, `Consumer` of an input.
        `put(item)` takes JSON values, bytes, arrays and dicts of arrays; `for item in context.stream(name)`
        gets items until the stream is closed, `get(timeout=…)` one. Each MPI rank has an end of its own.
        Raise ModuleError for a stream that the stage does not have."""
        from diel.streams.client import end_of  # only here: most modules have none

        return end_of(self.run_dir, self.streams or {}, name, self.member, self.attempt)

    @property
    def space(self) -> "TupleSpace":
        """The run's tuple space: `put(key, value)`, `read(pattern)`, `take(pattern)`. Raise ModuleError where
        the stage runs beside no other: nobody would answer."""
        from diel.streams.client import connect  # only here: most modules share nothing

        if self.streams is None:
            raise ModuleError("the tuple space is for stages that run beside others: add `beside: [STAGE]`")
        return connect(self.run_dir).space(self.member, self.attempt)
