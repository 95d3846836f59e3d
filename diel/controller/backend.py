"""A backend: where bundles go, and how many it has room for."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from diel.site import Shape
from diel.worker.bundle import Bundle


class Backend(Protocol):
    """This machine, or a scheduler's blocks."""

    def line(self, shape: Shape) -> str:
        """The line that tasks of a shape stand in: nothing of a line goes before its first task."""

    def has_room(self, shape: Shape, cores: int) -> bool:
        """Whether one more bundle of tasks with so many cores each may be handed out."""

    def width(self, shape: Shape) -> int:
        """Tasks of a shape that may run side by side: a bundle is at most a fair share of what waits."""

    def bundles(self, shape: Shape) -> bool:
        """Whether tasks of a shape go several at a time."""

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        """Hands out a bundle; the future raises where its worker was lost."""

    def ended(self, number: int) -> None:
        """A bundle ended: its room is free."""

    def tend(self, quiet: float, running: bool) -> bool:
        """Looks after the workers, now and then.

        `quiet` is how long nothing was heard of any task (seconds), `running` whether any is known to
        run. Returns whether the workers were started anew, so that what was handed out is lost.
        """

    def detach(self) -> None:
        """Lets go without ending what can go on without a controller."""

    def stop(self) -> None:
        """Ends all workers."""
