"""Whom a node of a block works for: the controller that wrote its script, or a later one that rewrote it.

A block may begin while the run has no controller: its nodes wait, and the place in the queue is not lost.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from diel.paths import RunPaths
from diel.project.lease import driver

LOOK = 2.0
ORPHAN = 600.0
"""An idle node ends after so many seconds without a heartbeat of the run's controller, by its own clock."""
_EPOCH = re.compile(r"^export DIEL_CONTROLLER_EPOCH=([0-9]+)$", re.MULTILINE)


class Controllers:
    """The controllers of a run, as one node of its blocks sees them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._paths = RunPaths(Path(environ["DIEL_RUN_DIR"]))
        self._epoch = int(environ["DIEL_CONTROLLER_EPOCH"])
        self._heard, self._since = self.heartbeat(), time.monotonic()
        self.script = self._paths.node_script(environ["DIEL_BLOCK"])

    def renewed(self) -> bool:
        """Whether a later controller rewrote this node's script."""
        if not self._is_superseded():  # asked by many nodes, again and again: that is cheaper than to read
            return False
        try:
            written = _EPOCH.search(self.script.read_text(encoding="utf-8", errors="surrogateescape"))
        except OSError:
            return False
        return written is not None and int(written[1]) > self._epoch

    def is_driven(self) -> bool:
        """Whether the controller that wrote this node's script drives the run."""
        held = driver(self._paths)
        return held is not None and held[0].epoch == self._epoch

    def is_heard_since(self, heartbeat: float) -> bool:
        """Whether that controller has sent a heartbeat since then."""
        return not self._is_superseded() and self.heartbeat() != heartbeat

    def is_lost(self) -> bool:
        """Whether that controller is gone. One that died on another host seems alive for a while, so this
        waits for its next heartbeat.
        """
        heard = self.heartbeat()
        while self.is_driven():
            if self.heartbeat() != heard:
                return False
            time.sleep(LOOK)
        return not self.is_heard_since(heard)

    def is_abandoned(self) -> bool:
        """Whether no controller has sent a heartbeat for long."""
        heard = self.heartbeat()
        if heard != self._heard:
            self._heard, self._since = heard, time.monotonic()
        return time.monotonic() - self._since > ORPHAN

    def _is_superseded(self) -> bool:
        return self._paths.controller_segment(self._epoch + 1).exists()

    def heartbeat(self) -> float:
        """When a controller last sent a heartbeat, by the file system's clock; 0 if the run is gone."""
        try:
            with open(self._paths.lease, "rb") as file:
                return os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return 0.0
