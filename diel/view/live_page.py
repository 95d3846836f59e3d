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
PATIENCE = 10.0
"""Seconds that a page waits for its panels; those that take longer come with the answers after it."""
BRIEFLY = 0.5
"""Seconds that an answer to "what is new" waits."""
SHARE = 20
"""A panel is made again after so many times as long as it took: slow ones take at most such a part."""


class LivePage:
    """The panels of a run, each with the version in which it changed last."""

    def __init__(self, paths: RunPaths) -> None:
        self._watched = Watched(paths)
        self._lock = threading.Lock()
        """Held while panels are taken, never while one is made."""
        self._maker: threading.Thread | None = None
        self._mistake: Exception | None = None
        self._looked = -REST
        self._offsets: dict[str, int] = {}
        self._state: object = None
        self._panels: dict[str, tuple[int, dict[str, Any]]] = {}
        self._next: dict[str, float] = {}
        """When each panel may be made again, by the clock of `time.monotonic`."""
        self._took: dict[str, float] = {}
        self._due: set[str] = set()
        """Panels made before the latest lines came."""
        self.version = int(time.time())  # so that a page of an earlier view gets all of it

    def whole(self) -> str:
        """The page, which then asks for what is new."""
        return document(self._answer(-1, PATIENCE), LIVE)

    def delta(self, since: int) -> dict[str, Any]:
        """What changed since a version; all of it for one that this page never had."""
        return self._answer(since, BRIEFLY)

    def _answer(self, since: int, patience: float) -> dict[str, Any]:
        """What there is, after another thread had so long to look: a slow panel keeps no answer back."""
        with self._lock:
            if self._maker is None or not self._maker.is_alive():
                self._maker = threading.Thread(target=self._make, daemon=True)
                self._maker.start()
            maker = self._maker
        maker.join(patience)
        with self._lock:
            if self._mistake is not None:
                mistake, self._mistake = self._mistake, None
                raise mistake
            return self._data(since if since <= self.version else -1)

    def _make(self) -> None:
        try:
            self._look()
        except Exception as error:  # the thread of a request tells it
            self._mistake = error

    def _data(self, since: int) -> dict[str, Any]:
        status, unread = self._watched.status, "unreadable" if self._watched.flaws else "reading"
        return {
            "run": self._watched.paths.run_id,
            "state": unread if status is None else status.state.value,
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
        for entry in sorted(ENTRIES, key=lambda one: self._took.get(one.name, 0.0)):
            began = time.monotonic()
            if entry.name in self._due and began >= self._next.get(entry.name, 0.0):
                self._take(entry.name, panel_of(entry, fresh))
                self._due.discard(entry.name)
                self._took[entry.name] = took = time.monotonic() - began
                self._next[entry.name] = began + SHARE * took
        self._looked = time.monotonic()

    def _take(self, name: str, made: Panel | None) -> None:
        """Takes a panel that was made again; a new version if it changed."""
        data = None if made is None else panel_data(made)
        with self._lock:
            known = self._panels.get(name)
            if data is not None and (known is None or known[1]["digest"] != data["digest"]):
                self.version += 1
                self._panels[name] = (self.version, data)
