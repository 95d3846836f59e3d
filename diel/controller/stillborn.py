"""Workers that ended before they could run anything: how often more are started."""

from __future__ import annotations

import time

from diel.errors import DielError, NotBegun

TRIES = 5
DIED = "WorkerLost"
"""What Parsl's exception and that of `diel.executors.pipes` are called, where a worker ended under a bundle;
not where its node or block did. Neither is imported here."""


class Stillborn:
    """Counts them by generation: those of one moment most likely have one reason."""

    def __init__(self, advice: str = "`diel doctor` checks this machine") -> None:
        """`advice` is for who reads why the run ended."""
        self._advice = advice
        self._tries = 0
        self._last = 0.0

    def count(self, error: BaseException, handed_out: float) -> None:
        """One that got its bundle at that moment (monotonic seconds), and began no task of it.

        Raises DielError after some tries.
        """
        if handed_out < self._last or not (isinstance(error, NotBegun) or type(error).__name__ == DIED):
            return
        self._last = time.monotonic()
        self._tries += 1
        if self._tries >= TRIES:
            raise DielError(
                f"no worker can begin, {TRIES} tries in a row: {error};\n"
                f"{self._advice}; `diel resume` then goes on"
            )

    def forget(self) -> None:
        """One had begun."""
        self._tries = 0
