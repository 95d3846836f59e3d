"""The tasks of a stage as a list of any length: only the rows that are seen are made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip


class TaskList(ScrollView, can_focus=True):
    """A list of tasks by their indices, with a cursor."""

    DEFAULT_CSS = """
    TaskList { height: 1fr; padding: 0 1; }
    TaskList > .task-list--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"task-list--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1_000_000_000)", show=False),
        Binding("end", "move(1_000_000_000)", show=False),
        Binding("enter", "choose", "open"),
    ]
    cursor = reactive(0)

    class Chosen(Message):
        """A task was opened."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, describe: Callable[[int], Text]) -> None:
        super().__init__()
        self._describe = describe
        self._tasks: Sequence[int] = ()

    @property
    def index(self) -> int | None:
        """The task under the cursor."""
        return self._tasks[self.cursor] if self._tasks else None

    def show(self, tasks: Sequence[int]) -> None:
        """Shows these tasks, in ascending order; the cursor stays on its own if that is still among them."""
        before = self.index
        self._tasks = tasks
        place = 0 if before is None else bisect_left(tasks, before)
        if place < len(tasks) and tasks[place] == before:
            self.cursor = place
        self.cursor = max(0, min(self.cursor, len(tasks) - 1))
        self.virtual_size = Size(0, len(tasks))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        place, width = y + self.scroll_offset.y, self.size.width
        if not 0 <= place < len(self._tasks):
            return Strip.blank(width, self.rich_style)
        text = self._describe(self._tasks[place])
        text.truncate(width, overflow="ellipsis", pad=True)
        text.stylize_before(self.rich_style)
        if place == self.cursor:
            text.stylize(self.get_component_rich_style("task-list--cursor"))
        return Strip(text.render(self.app.console, end=""), width)

    def watch_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
        self.refresh()

    def action_move(self, rows: int) -> None:
        self.cursor = max(0, min(self.cursor + rows, len(self._tasks) - 1))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 1))

    def action_choose(self) -> None:
        if self.index is not None:
            self.post_message(self.Chosen(self.index))

    def on_click(self, event: Click) -> None:
        place = event.y + self.scroll_offset.y
        if place < len(self._tasks):
            self.cursor = place
            if event.chain == 2:
                self.action_choose()
