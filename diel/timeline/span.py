"""What a timeline is made of: attempts from their begin to their end, in the lanes of their workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Lane(NamedTuple):
    """Where attempts run one after the other: a worker; beyond some hundreds, all others of a node."""

    worker: str
    """The worker's segment; empty for several of a node, or of all nodes."""
    node: str
    """The node as its scheduler calls it, else the host; empty for all others."""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """An attempt in time."""

    stage: str
    index: int
    attempt: int
    lane: int
    begin: float
    """Seconds since the epoch."""
    end: float
    """The time of its last sign of life while it runs."""
    state: str
    """`done`, `failed`, `cancelled`, `running`, or `lost`: it began, and no end of it is written."""

    @property
    def task(self) -> str:
        return f"{self.stage}/{self.index}"

    @property
    def seconds(self) -> float:
        return self.end - self.begin
