"""An edge of the stage graph, and what may be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Flaw:
    """Something wrong in the graph: the key's path, the message, a hint."""

    key: Key
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Edge:
    """A stage's use of another stage: along which axes data moves.

    With A the upstream axes and B the downstream ones: axes in both are matched, axes only in A
    and not picked by `at` are gathered, axes only in B are broadcast over.
    """

    key: Key
    upstream: str
    downstream: str
    output: str | None = None
    """The output that is read; None for an order without data."""
    name: str | None = None
    """The input's name; None for `after`, expressions and derived axes."""
    axis: str | None = None
    """The derived axis that the edge makes known."""
    picked: Mapping[str, Any] = field(default_factory=dict)
    matched: tuple[str, ...] = ()
    gathered: tuple[str, ...] = ()
    min_success: float = 1.0

    @property
    def follows(self) -> bool:
        """Whether the edge reads the round before, and so closes no cycle."""
        return "previous" in self.picked.values()
