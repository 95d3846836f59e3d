"""A backend: where bundles go, and how many it has room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from diel.attempt.bundle import Bundle
from diel.errors import DielError
from diel.site import Shape

Adopt = Callable[[str, int, int], None]
"""Takes a task for handed out: its stage, index and attempt."""


class LetGo(DielError):
    """This controller must stop now; what runs in blocks goes on, for the next one to adopt."""


class EngineLost(DielError):
    """Nothing reaches the workers of the run's blocks any more: its next controller takes them over."""


@dataclass(frozen=True)
class Outlook:
    """What the controller knows of its tasks."""

    backlog: Mapping[str, float]
    """Seconds of work in line, by shape, as far as run times are known."""
    excluded: frozenset[str]
    """Nodes that are to be avoided."""
    needed: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the shortest tasks in line were seen to need, by shape."""


class Backend(Protocol):
    """This machine, or a scheduler's blocks."""

    def line(self, shape: Shape) -> str:
        """The line that tasks of a shape stand in: nothing of a line goes before its first task."""

    def has_room(self, shape: Shape, cores: int) -> bool:
        """Whether one more bundle of tasks with so many cores each may be handed out."""

    def has_room_for(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        """Whether tasks with so many cores each can run at the same time, beside what is out."""

    def could_hold(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        """Whether they could run at the same time once all that is out has ended, but for services."""

    def width(self, shape: Shape) -> int:
        """Tasks of a shape that can run side by side now: a bundle is at most a fair share of what waits."""

    def bundles(self, shape: Shape) -> bool:
        """Whether tasks of a shape go several at a time."""

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        """Hands out a bundle; the future raises where its worker was lost."""

    def ended(self, number: int) -> None:
        """A bundle ended: its room is free."""

    def tend(self, outlook: Outlook) -> None:
        """Looks after the workers, now and then."""

    def knows(self, since: float) -> bool:
        """Whether it can be told why a worker was lost at that moment (monotonic seconds)."""

    def adopt(self, take: Adopt) -> None:
        """Takes over what runs on from an earlier controller; tells `take` of each task."""

    def detach(self) -> None:
        """Lets go without ending what can go on without a controller."""

    def stop(self) -> None:
        """Ends all workers."""

    @property
    def left(self) -> tuple[str, ...]:
        """Jobs that were told to end, and of which the scheduler has not said that they did."""
