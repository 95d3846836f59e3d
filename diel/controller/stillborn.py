"""Workers that end before they run anything: after some in a row, another one is no use."""

from __future__ import annotations

import time

from diel.errors import DielError, NotBegun, WorkerLost

TRIES = 5
"""After so many workers in a row that could not begin, the run ends."""
DIED = WorkerLost.__name__
"""Parsl's exception has the same name, and is not imported here. It says that a worker ended under a bundle,
not that its node or block did."""


class Stillborn:
    """Workers that ended before they could run anything; those of one moment count once."""

    def __init__(self, advice: str) -> None:
        """`advice` is for whoever reads why the run ended."""
        self._advice = advice or "`diel doctor` checks this machine"
        self._tries = 0
        self._last = 0.0

    def count(self, error: BaseException, handed_out: float) -> None:
        """Counts a worker that got its bundle at that moment (monotonic seconds) and began no task of it.

        Raises DielError after some tries.
        """
        if handed_out < self._last or not (isinstance(error, NotBegun) or type(error).__name__ == DIED):
            return
        self._last = time.monotonic()
        self._tries += 1
        if self._tries >= TRIES:
            raise DielError(
                f"no worker can begin, {TRIES} tries in a row: {error};\n"
                f"{self._advice}; `diel resume` then continues"
            )
