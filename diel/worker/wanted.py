"""Whether a replica of a service is still wanted: what its controller says, and whether there is one."""

from __future__ import annotations

import os
import time

from diel.attempt.lifeline import is_cut
from diel.paths import RunPaths

LOOK = 2.0
"""Seconds between two looks at the controller's heartbeat."""
ALONE = 60.0
"""Seconds without a heartbeat of its controller after which a service is stopped; or `idle`, if longer."""
GONE = "the controller of its run is gone"


class Stopped(Exception):
    """The service is to stop: `over` for good, anything else says why for now."""


class Wanted:
    """One attempt at a replica, as its controller wants it."""

    def __init__(self, paths: RunPaths, stage: str, index: int, attempt: int, idle: float) -> None:
        self._stop_file = paths.service_stop(stage, index, attempt)
        self._lease = paths.lease
        self._patience = max(ALONE, idle)
        self._parent = os.getppid()
        self._beat, self._seen = 0.0, time.monotonic()

    def check(self) -> None:
        """Raises Stopped where the controller wants it stopped, or is gone."""
        try:
            raise Stopped(self._stop_file.read_text(encoding="utf-8").strip() or "over")
        except OSError:
            pass
        if os.getppid() != self._parent or is_cut():
            raise Stopped(GONE)
        now = time.monotonic()
        if now - self._seen > LOOK:
            self._look_at_heartbeat(now)

    def _look_at_heartbeat(self, now: float) -> None:
        try:
            beat = os.stat(self._lease).st_mtime
        except OSError:
            beat = self._beat
        if beat != self._beat:
            self._beat, self._seen = beat, now
        elif now - self._seen > self._patience:
            raise Stopped(GONE)
