"""A screen that looks again every second or so, in a thread of its own, and never takes most of a core."""

from __future__ import annotations

import time

from textual.screen import Screen
from textual.worker import Worker, WorkerState

from diel.errors import MISTAKE

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
        self._said = ""

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
            self._looker = self.run_worker(self._look, thread=True, group="look", exit_on_error=False)

    def _look(self) -> None:
        began, self._again = time.monotonic(), False
        try:
            self.look()
        finally:
            rest = max(self._interval, min(SHARE * (time.monotonic() - began), LONGEST))
            self._next = 0.0 if self._again else began + rest

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker is not self._looker or not self.is_attached:
            return
        if event.state is WorkerState.SUCCESS:
            self.draw()
        elif event.state is WorkerState.ERROR:  # one of diel's: what was seen before stays on the screen
            error = event.worker.error
            said = f"{MISTAKE}: {type(error).__name__}: {error}"
            if said != self._said:
                self._said = said
                self.notify(said, severity="error", timeout=60)

    def look(self) -> None:
        """Reads what is new. Runs in a thread."""
        raise NotImplementedError

    def draw(self) -> None:
        """Shows what was read."""
        raise NotImplementedError
