"""A run that is looked at again and again: each look costs what was appended since the one before."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from diel.base.errors import DielError, UsageError
from diel.base.paths import RunPaths
from diel.base.states import TaskState
from diel.observe.results import RunReader
from diel.observe.status.run import Status, fold_status
from diel.store.journal.form import refuse_damaged
from diel.store.journal.history import History
from diel.store.journal.records import Result
from diel.store.journal.segment import Reader
from diel.store.journal.snapshot import read_run
from diel.store.journal.stage_history import StageHistory
from diel.store.timeline import Timeline, load_timeline
from diel.ui.page.document import document, panel_data
from diel.ui.page.panel import Panel, RunView, Text
from diel.ui.page.panels import ENTRIES, panel_of

Answer = TypeVar("Answer")
MOST_FLAWS = 20
"""Damaged records behind which reading goes on, in one look."""
POINTS_REST = 5.0
"""The fewest seconds between two readings of the workflow's points."""


class RunWatch:
    """A run, its latest status, and what of it could not be read."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.reader: Reader | None = None
        self.status: Status | None = None
        self.timeline: Timeline | None = None
        self.flaws: list[str] = []
        """What was wrong with its files, each once."""
        self._recorded: RunReader | None = None
        self._counts: object = None
        self._renewed = 0.0

    def look(self) -> Status | None:
        """Return the status now; the last one where the run's files are gone; None where there was none."""
        if not self.paths.run_file.exists():
            self._note(f"{self.paths.root} is gone: the run was removed")
            return self.status
        try:
            if self.reader is None:
                self.reader = self._begin()
            self._catch_up(self.reader)
            self.status = fold_status(self.paths, self.reader)
        except (DielError, OSError) as error:
            self._note(str(error))
        return self.status

    def _begin(self) -> Reader:
        try:
            return read_run(self.paths)
        except UsageError as error:
            self._note(str(error))
            return Reader(self.paths, History())

    def _catch_up(self, reader: Reader) -> None:
        """Read on behind what is damaged: then each record is looked at before it is folded in."""
        for _ in range(MOST_FLAWS):
            try:
                reader.catch_up(refuse_damaged if self.flaws else None)
            except UsageError as error:
                if not self.flaws:  # it may be half in the fold: all is read again, with care
                    reader.history, reader.offsets, reader.gaps = History(), {}, []
                self._note(str(error))
            else:
                return

    def _note(self, flaw: str) -> None:
        if flaw not in self.flaws:
            self.flaws.append(flaw)

    def follow_timeline(self) -> Timeline | None:
        """Return when and where attempts ran, up to now. The first time takes seconds for a long run."""
        try:
            self.timeline = self.timeline or load_timeline(self.paths) or Timeline(self.paths)
            self.timeline.catch_up()
        except (DielError, OSError) as error:
            self._note(str(error))
        return self.timeline

    def page_view(self) -> RunView | None:
        """Return the run as its page sees it; None before its timeline was read."""
        if self.status is None or self.reader is None or self.timeline is None:
            return None
        view = RunView(self.paths, reader=self.reader)
        view.status, view.timeline = self.status, self.timeline  # as they were read a moment ago
        self._renew(self.status, self.reader)
        if self._recorded is not None:
            view.run = self._recorded
        return view

    def stage(self, name: str) -> StageHistory:
        """Return what is known of a stage's tasks; one that has not begun has none."""
        history = None if self.reader is None else self.reader.history.stages.get(name)
        return history or StageHistory("analysis", 0, bytearray())

    def states(self, stage: str) -> bytes:
        """Return the state of each of its tasks, a byte for each."""
        history = self.stage(stage)
        return bytes(history.states) + bytes(max(0, history.total - len(history.states)))

    def state(self, stage: str, index: int) -> TaskState:
        """Return the state of a task; without a controller nothing is under way."""
        state = self.stage(stage).state(index)
        live = self.status is not None and self.status.state.live
        return state if live or state.ended else TaskState.WAITING

    def point(self, stage: str, index: int) -> Mapping[str, Any]:
        """Return the values of a task's point, and what searches set for it; empty if not known."""
        return self._ask(lambda run: run.point(stage, index) | run.hyperparameters(stage, index)) or {}

    def result(self, stage: str, index: int) -> Result | None:
        """Return what a task made; None if it made nothing, or that cannot be read."""
        return self._ask(lambda run: run.record(stage, index))

    def _ask(self, read: Callable[[RunReader], Answer]) -> Answer | None:
        """Ask the run's workflow and axes. If they cannot be read, a note says so once."""
        if self.status is None or self.reader is None:
            return None
        self._renew(self.status, self.reader)
        if self._recorded is None:
            return None
        try:
            return read(self._recorded)
        except (DielError, OSError, LookupError) as error:
            self._note(str(error))
            self._recorded = None
            return None

    def _renew(self, status: Status, reader: Reader) -> None:
        """Read the workflow and the points, again if there may be new ones."""
        counts: list[object] = [stage.total for stage in status.stages]
        counts += [len(course.trials) for axis in status.axes for course in axis.courses]
        if counts != self._counts and time.monotonic() >= self._renewed:
            self._recorded, self._counts = RunReader(self.paths, reader.history), counts
            self._renewed = time.monotonic() + POINTS_REST


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
        self._watched = RunWatch(paths)
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
        """Return the page, which then asks for what is new."""
        return document(self._answer(-1, PATIENCE), LIVE)

    def delta(self, since: int) -> dict[str, Any]:
        """Return the panels that changed since a version; all of them for an unknown version."""
        return self._answer(since, BRIEFLY)

    def _answer(self, since: int, patience: float) -> dict[str, Any]:
        """Return the panels, after another thread had so long to look: a slow panel delays no answer."""
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
        names = [entry.name for entry in ENTRIES]
        panels = [self._panels[name] for name in ("unread", *names) if name in self._panels]
        return {
            "run": self._watched.paths.run_id,
            "state": unread if status is None else status.state.value,
            "version": self.version,
            "order": names,
            "panels": [panel for changed, panel in panels if changed > since],
        }

    def _look(self) -> None:
        """Read the new lines of the journal, and make the panels whose turn it is."""
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
        fresh = RunView(self._watched.paths, reader=reader, timeline=self._watched.follow_timeline())
        for entry in sorted(ENTRIES, key=lambda candidate: self._took.get(candidate.name, 0.0)):
            began = time.monotonic()
            if entry.name in self._due and began >= self._next.get(entry.name, 0.0):
                self._take(entry.name, panel_of(entry, fresh))
                self._due.discard(entry.name)
                self._took[entry.name] = took = time.monotonic() - began
                self._next[entry.name] = began + SHARE * took
        self._looked = time.monotonic()

    def _take(self, name: str, panel: Panel | None) -> None:
        """Keep a panel that was made again, as a new version if it changed."""
        data = None if panel is None else panel_data(panel)
        with self._lock:
            earlier = self._panels.get(name)
            if data is not None and (earlier is None or earlier[1]["digest"] != data["digest"]):
                self.version += 1
                self._panels[name] = (self.version, data)
