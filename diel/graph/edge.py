"""An edge of the stage graph, and what may be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from diel.spec import Choice, Hyperparameter

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Flaw:
    """Something wrong in the graph: the key's path, the message, a hint."""

    key: Key
    message: str
    hint: str = ""
    offset: int | None = None
    """Characters into the text of the key's value, where the trouble begins further on."""


@dataclass(frozen=True)
class Published:
    """A hyperparameter that is read as another stage has published it."""

    name: str
    given: Hyperparameter
    """Its type and bounds, which the value must fit."""


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
    """The input's name; None for `after`, expressions, derived axes and published values."""
    axis: str | None = None
    """The derived axis that the edge makes known."""
    picked: Mapping[str, Any] = field(default_factory=dict)
    """Points that the file names, by axis."""
    matched: tuple[str, ...] = ()
    gathered: tuple[str, ...] = ()
    min_success: float = 1.0
    chosen: Mapping[str, Choice] = field(default_factory=dict)
    """What picks points of searches and loops while the run goes on, by axis."""
    initially: Any = None
    """The value where there is no round before; templates in it are not evaluated yet."""
    hyperparameter: str | None = None
    """The hyperparameter that is read instead of an output, as a search has set it."""
    published: Published | None = None
    """The hyperparameter whose value the output is."""
    stream: bool = False
    """Whether the output is read while its task runs."""
    share: bool = False
    """Whether the items of a stream are shared out among the downstream tasks."""
    service: bool = False
    """Whether the downstream tasks ask the upstream ones while these stay up."""
    optional: bool = False
    """Whether the downstream tasks go on without the service, where it fails."""
    renewed: bool = False
    """Whether the downstream service gets newer rounds' outputs while it runs."""
    begun: bool = False
    """Whether it has something to begin with, before the first round."""

    @property
    def follows(self) -> bool:
        """Whether the edge reads the round before, or the latest, and so closes no cycle."""
        return (self.renewed and self.begun) or any(
            choice.word == "previous" for choice in self.chosen.values()
        )
