"""`diel view` in a terminal: the runs of a project, and each of them. It writes nothing."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from diel.paths import RunPaths
from diel.project.runs import all_runs
from diel.states import TaskState
from diel.status import Status
from diel.values import clock, format_duration
from diel.view.looking import Looking
from diel.view.rows import ANSI, state_text
from diel.view.run_screen import RunScreen
from diel.view.watched import Watched

MOST_NEW = 50
"""Runs that one look reads anew: a project of thousands is shown while it is read."""
_COLUMNS = ("run", "state", "done", "failed", "began", "took")


class RunsScreen(Looking):
    """The runs of a project, the newest first."""

    DEFAULT_CSS = "RunsScreen #title { padding: 0 1; } RunsScreen DataTable { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape", "app.quit", "quit")]

    def __init__(self, runs: Path, interval: float) -> None:
        super().__init__(interval)
        self._runs = runs
        self._watched: dict[str, Watched] = {}
        """Runs that go on."""
        self._rows: dict[str, tuple[RunPaths, Status | None, str]] = {}
        self._order: list[str] = []
        self._drawn: list[object] = []

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield DataTable[Text](cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).add_columns(*_COLUMNS)
        super().on_mount()

    def look(self) -> None:
        runs = {paths.run_id: paths for paths in reversed(all_runs(self._runs))}
        self._order = list(runs)
        new = [name for name in runs if name not in self._rows][:MOST_NEW]
        for name in [*new, *(name for name in self._watched if name in runs)]:
            watched = self._watched.setdefault(name, Watched(runs[name]))
            status = watched.look()
            self._rows[name] = (runs[name], status, watched.flaws[-1] if watched.flaws else "")
            if status is not None and not status.state.live:
                watched.reader = None  # it may be resumed, and is read anew then
        self._rows = {name: row for name, row in self._rows.items() if name in runs}
        self._watched = {
            name: watched for name, watched in self._watched.items() if name in runs and not watched.is_over
        }

    def draw(self) -> None:
        rows = [_row(*self._rows[name]) for name in self._order if name in self._rows]
        unread = len(self._order) - len(rows)
        title = f"{len(self._order):,} runs in {self._runs}" + (f" ({unread:,} to read)" if unread else "")
        self.query_one("#title", Static).update(title if self._order else f"no runs in {self._runs}")
        if rows == self._drawn:
            return
        self._drawn = [*rows]
        table = self.query_one(DataTable)
        place = table.cursor_row
        table.clear()
        for name, row in zip((name for name in self._order if name in self._rows), rows, strict=True):
            table.add_row(*row, key=name)
        table.move_cursor(row=place)

    @on(DataTable.RowSelected)
    def _open(self, event: DataTable.RowSelected) -> None:
        paths = self._rows[event.row_key.value or ""][0]
        self.app.push_screen(RunScreen(paths, self._interval))


def _row(paths: RunPaths, status: Status | None, flaw: str) -> list[Text]:
    if status is None:
        return [Text(paths.run_id), Text("✗ unreadable"), Text(""), Text(""), Text(""), Text(flaw)]
    failed = status.count(TaskState.FAILED)
    return [
        Text(status.run),
        state_text(status.state.value),
        Text(f"{status.good:,}/{status.total_text}", justify="right"),
        state_text("failed", failed) if failed else Text(""),
        Text("" if status.began is None else clock(status.began)[:-3]),
        Text(format_duration(status.elapsed), justify="right"),
    ]


class ViewApp(App[None]):
    """The runs of a project, and at first one of them."""

    TITLE = "diel"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, runs: Path, paths: RunPaths, interval: float) -> None:
        super().__init__()
        self.ansi_theme_dark = self.ansi_theme_light = ANSI
        self._screens = (RunsScreen(runs, interval), RunScreen(paths, interval))

    def on_mount(self) -> None:
        # Else the terminal stays as a view needs it; SIGHUP says that there is none any more.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        for screen in self._screens:
            self.push_screen(screen)


def show(runs: Path, paths: RunPaths, interval: float) -> None:
    """Show a run until the user leaves."""
    ViewApp(runs, paths, interval).run()
