"""The live display of a run on a terminal: a bar for each stage, failures above as they come."""

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from diel.base.states import TaskState
from diel.base.values import format_duration
from diel.controller.controller import Controller
from diel.observe.status.axis import ROWS, axis_lines
from diel.observe.status.columns import COLOURS
from diel.observe.status.stage import count_text
from diel.store.journal.history import History
from diel.ui.terminal.meter import Meter, Row, blocks_text, start_line

BAR = 24
"""Columns of a bar, if the terminal has room."""
OTHERS = 6
"""Lines kept free of stages."""
_BAD = (TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)


class Bars:
    """Draws bars at the bottom of the terminal until closed."""

    def __init__(self, controller: Controller) -> None:
        self._began = time.monotonic()
        self._console = Console(highlight=False)
        self._console.print(Text(start_line(controller)))
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._live.start()

    def look(self, history: History, meter: Meter, *, last: bool) -> None:
        rows = meter.rows(history)
        blocks = "" if last else blocks_text(meter.plan, history)
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(self._console.width // 3, 12))
        table.add_column(width=BAR if self._console.width >= 72 else 10)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        axes = self._axes(history, meter, last=last)
        shown, hidden = _fitting(rows, self._console.height - OTHERS - bool(blocks) - len(axes))
        for row in shown:
            table.add_row(*_cells(row, last=last))
        parts: list[RenderableType] = [table]
        if hidden:
            parts.append(Text(f"… {hidden} more stages", style="dim"))
        parts += [Text.from_ansi(line, no_wrap=True, overflow="ellipsis") for line in axes]
        if blocks:
            parts.append(Text(blocks, no_wrap=True, overflow="ellipsis"))
        if not last:
            time_left = meter.time_left_text(history)
            elapsed = format_duration(time.monotonic() - self._began)
            texts = filter(None, (elapsed, time_left, "Ctrl-C interrupts"))
            parts.append(Text(" · ".join(texts), style="dim"))
        self._live.update(Group(*parts), refresh=True)

    def _axes(self, history: History, meter: Meter, *, last: bool) -> list[str]:
        axes = meter.axes(history, last=last)
        room = self._console.height // 2
        for rows in (ROWS, 3, 1):
            lines = axis_lines(axes, self._console.width, rows)
            if len(lines) <= room:
                return lines
        return lines[:room] if axes else []

    def say(self, lines: list[str]) -> None:
        """Print lines above the bars."""
        for line in lines:
            self._console.print(Text.from_ansi(line), soft_wrap=True)

    def close(self) -> None:
        """Leave the last picture and release the terminal."""
        self._live.stop()


def _fitting(rows: list[Row], height: int) -> tuple[list[Row], int]:
    """Return the rows that fit, those under way first, and how many do not."""
    height = max(height, 1)
    if len(rows) <= height:
        return rows, 0
    begun = (TaskState.RUNNING, TaskState.FAILED)
    rank = {id(row): (row.complete, not (row.good or any(row[state] for state in begun))) for row in rows}
    chosen = {id(row) for row in sorted(rows, key=lambda row: rank[id(row)])[:height]}
    return [row for row in rows if id(row) in chosen], len(rows) - height


def _cells(row: Row, *, last: bool) -> list[RenderableType]:
    ended = row.good + sum(row[state] for state in _BAD)
    colour = "red" if row[TaskState.FAILED] else "yellow" if ended > row.good else "green"
    picture: RenderableType = Text("")  # where nobody knows yet how many tasks there will be
    if row.total or row.complete:
        done = ended if row.total else 1
        picture = ProgressBar(row.total or 1, done, complete_style=colour, finished_style=colour)
    return [Text(row.name), picture, Text(f"{row.good:,}/{row.total_text}"), _notes(row, last=last)]


def _notes(row: Row, *, last: bool) -> Text:
    shown = [state for state in (TaskState.RUNNING, *_BAD, TaskState.CACHED) if row[state]]
    parts = [
        Text(count_text(state, row[state], 0), style=COLOURS[state.label])
        for state in shown
        if not (last and state is TaskState.RUNNING)
    ]
    if (rate := row.rate) and not (row.complete or last):
        size = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 0.5 else f"{rate * 60:.1f}/min"
        parts.append(Text(size, style="dim"))
    return Text("  ").join(parts)
