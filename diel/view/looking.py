"""A screen that looks again every second or so, in a thread of its own, and never takes most of a core."""

from __future__ import annotations

import time

from textual.screen import Screen
from textual.worker import Worker, WorkerState

SHARE = 5
"""Looking takes at most one part in this many of the time."""
LONGEST = 10.0
"""Seconds after which it looks again, however long the last look took."""


class Looking(Screen[None]):
    """Calls `look` in a thread, then `draw` here, while it is on top."""

    def __init__(self, interval: float) -> None:
        super().__init__()
        self._interval = interval
        self._next = 0.0
        self._looker: Worker[None] | None = None
        self._again = False

    def on_mount(self) -> None:
        self.look_again()
        self.set_interval(min(self._interval, 0.25), self._tick)

    def on_screen_resume(self) -> None:
        self._next = 0.0

    def _tick(self) -> None:
        if self.is_current and time.monotonic() >= self._next:
            self.look_again()

    def look_again(self) -> None:
        """Looks now, or once more after the look that is under way."""
        self._again = True
        if self._looker is None or self._looker.is_finished:
            self._looker = self.run_worker(self._look, thread=True, group="look", exit_on_error=True)

    def _look(self) -> None:
        began, self._again = time.monotonic(), False
        self.look()
        took = time.monotonic() - began
        rest = max(self._interval, min(SHARE * took, LONGEST))
        self._next = 0.0 if self._again else began + rest

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker is self._looker and event.state is WorkerState.SUCCESS and self.is_attached:
            self.draw()

    def look(self) -> None:
        """Reads what is new. Runs in a thread."""
        raise NotImplementedError

    def draw(self) -> None:
        """Shows what was read."""
        raise NotImplementedError
