"""Workers that ended before they could run anything: how often more are started."""

from __future__ import annotations

import time

from diel.errors import DielError, NotBegun

TRIES = 5


class Stillborn:
    """Counts them by generation: those of one moment most likely have one reason."""

    def __init__(self) -> None:
        self._tries = 0
        self._last = 0.0

    def count(self, error: NotBegun, handed_out: float) -> None:
        """One that got its bundle at that moment (monotonic seconds). Raises DielError after some tries."""
        if handed_out < self._last:
            return
        self._last = time.monotonic()
        self._tries += 1
        if self._tries >= TRIES:
            raise DielError(
                f"no worker can begin, {TRIES} tries in a row: {error};\n"
                "`diel doctor` checks this machine; `diel resume` then goes on"
            )

    def forget(self) -> None:
        """One had begun."""
        self._tries = 0
