"""A page that follows its run: what changed since a version, at the cost of what the journal got since."""

from __future__ import annotations

import threading
import time
from typing import Any

from diel.page.document import document, panel_data
from diel.page.panel import Panel, Text
from diel.page.panels import ENTRIES, panel_of
from diel.page.seen import Seen
from diel.paths import RunPaths
from diel.view.watched import Watched

LIVE = "delta"
"""Where the page asks for what is new."""
REST = 1.0
"""The fewest seconds between two looks at the run."""
PATIENCE = 3.0
"""Seconds of an answer after which no further panel is made for it."""
SHARE = 20
"""A panel is made again after so many times as long as it took: slow ones take at most such a part."""


class LivePage:
    """The panels of a run, each with the version in which it changed last."""

    def __init__(self, paths: RunPaths) -> None:
        self._watched = Watched(paths)
        self._lock = threading.Lock()
        self._looked = -REST
        self._offsets: dict[str, int] = {}
        self._state: object = None
        self._panels: dict[str, tuple[int, dict[str, Any]]] = {}
        self._next: dict[str, float] = {}
        """When each panel may be made again, by the clock of `time.monotonic`."""
        self._due: set[str] = set()
        """Panels made before the latest lines came."""
        self.version = int(time.time())  # so that a page of an earlier view gets all of it

    def whole(self) -> str:
        """The page, which then asks for what is new."""
        with self._lock:
            self._look()
            return document(self._data(-1), LIVE)

    def delta(self, since: int) -> dict[str, Any]:
        """What changed since a version; all of it for one that this page never had."""
        with self._lock:
            self._look()
            return self._data(since if since <= self.version else -1)

    def _data(self, since: int) -> dict[str, Any]:
        status = self._watched.status
        return {
            "run": self._watched.paths.run_id,
            "state": "unreadable" if status is None else status.state.value,
            "version": self.version,
            "order": [entry.name for entry in ENTRIES],
            "panels": [panel for changed, panel in self._in_order() if changed > since],
        }

    def _in_order(self) -> list[tuple[int, dict[str, Any]]]:
        return [
            self._panels[name] for name in ("unread", *(one.name for one in ENTRIES)) if name in self._panels
        ]

    def _look(self) -> None:
        """Reads what the journal got, and makes again the panels whose turn it is."""
        now = time.monotonic()
        if now - self._looked < REST:
            return
        status, reader = self._watched.look(), self._watched.reader
        flaws = [Text(flaw, "bad") for flaw in self._watched.flaws]
        self._take("unread", Panel("unread", "What could not be read", flaws) if flaws else None)
        if reader is None or status is None:
            self._looked = time.monotonic()
            return
        if status.state != self._state:
            self._next.clear()  # how it ended is shown at once, whatever that takes
        if reader.offsets != self._offsets or status.state != self._state:
            self._offsets, self._state = dict(reader.offsets), status.state
            self._due = {entry.name for entry in ENTRIES}
        fresh = Seen(self._watched.paths, reader=reader, timeline=self._watched.follow_timeline())
        for entry in ENTRIES:
            began = time.monotonic()
            if entry.name in self._due and began >= self._next.get(entry.name, 0.0):
                self._take(entry.name, panel_of(entry, fresh))
                self._due.discard(entry.name)
                ended = time.monotonic()
                self._next[entry.name] = began + SHARE * (ended - began)
                if ended - now > PATIENCE:
                    return  # the others come with the next answers
        self._looked = time.monotonic()

    def _take(self, name: str, made: Panel | None) -> None:
        """Takes a panel that was made again; a new version if it changed."""
        data = None if made is None else panel_data(made)
        if data is not None and (
            name not in self._panels or self._panels[name][1]["digest"] != data["digest"]
        ):
            self.version += 1
            self._panels[name] = (self.version, data)
