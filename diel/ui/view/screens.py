"""Screens that look again and again: what all of them do, commands on a run, and one task with its output."""

import os
import subprocess
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen, Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Button, Footer, RichLog, Static
from textual.worker import Worker, WorkerState

from diel.base.carried import PYTHON
from diel.base.errors import MISTAKE, DielError
from diel.base.paths import RunPaths
from diel.base.states import TaskState
from diel.base.values import format_duration, format_size, point_text
from diel.observe.results.printed import PRINTED, find_output
from diel.observe.status.stage import failure_lines
from diel.store.journal.records import Result
from diel.store.journal.segment import Reader
from diel.ui.view.charts import draw, harmless, metric_charts, state_text
from diel.ui.view.run_watch import RunWatch

SHARE = 5
"""Looking takes at most one part in this many of the time."""
LONGEST = 10.0
"""Seconds after which it looks again, however long the last look took."""


class LiveScreen(Screen[None]):
    """Calls `look` in a thread, then `draw` here, while it is on top."""

    def __init__(self, interval: float) -> None:
        super().__init__()
        self._interval = interval
        self._next = 0.0
        self._looker: Worker[None] | None = None
        self._again = False
        self._answer = ""

    def on_mount(self) -> None:
        self.look_again()
        self.set_interval(min(self._interval, 0.25), self._tick)

    def on_screen_resume(self) -> None:
        self._next = 0.0

    def _tick(self) -> None:
        if self.is_current and time.monotonic() >= self._next:
            self.look_again()

    def look_again(self) -> None:
        """Look now, or once more after the look that is under way."""
        self._again = True
        if self._looker is None or self._looker.is_finished:
            self._looker = self.run_worker(self._look, thread=True, group="look", exit_on_error=False)

    def _look(self) -> None:
        began, self._again = time.monotonic(), False
        try:
            self.look()
        finally:
            rest = max(self._interval, min(SHARE * (time.monotonic() - began), LONGEST))
            self._next = 0.0 if self._again else began + rest

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker is not self._looker or not self.is_attached:
            return
        if event.state is WorkerState.SUCCESS:
            self.draw()
        elif event.state is WorkerState.ERROR:  # one of diel's: what was seen before stays on the screen
            error = event.worker.error
            text = f"{MISTAKE}: {type(error).__name__}: {error}"
            if text != self._answer:
                self._answer = text
                self.notify(text, severity="error", timeout=60)

    def look(self) -> None:
        """Read what is new. Runs in a thread."""
        raise NotImplementedError

    def draw(self) -> None:
        """Show what was read."""
        raise NotImplementedError


PATIENCE = 120.0


def execute(paths: RunPaths, *words: str) -> tuple[str, str]:
    """Run a command on a run to its end; return it, with its exit code if not 0, and its output."""
    command = [*PYTHON, "-m", "diel", *words, "--runs", str(paths.root.parent)]
    files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "errors": "replace"}
    title = f"diel {' '.join(words)}"
    try:
        process = subprocess.run(command, **files, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"{title} (exit 1)", f"it has not ended after {PATIENCE:.0f} s"
    code = f" (exit {process.returncode})" if process.returncode else ""
    return title + code, (process.stdout + process.stderr).strip()


class Confirmation(ModalScreen[bool]):
    """Asks whether to start a command."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape", "answer(False)", "no"),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, words: tuple[str, ...]) -> None:
        super().__init__()
        self._question, self._words = question, words

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(f"{self._question}\n\nIt runs: diel {' '.join(self._words)}\n", markup=False)
            with Horizontal():
                yield Button("No (n)", id="no", compact=True)
                yield Button("Yes (y)", id="yes", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class AnswerScreen(ModalScreen[None]):
    """The screen with the output of a command."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "back")]

    def __init__(self, command: str, output: str) -> None:
        super().__init__()
        self._command, self._output = command, output

    def compose(self) -> ComposeResult:
        with VerticalScroll() as around:
            around.border_title = self._command
            yield Static(self._output or "it said nothing", markup=False)
        yield Footer()


class RunCommandScreen(LiveScreen):
    """A run, or a task of it, and commands on it."""

    def __init__(self, watched: RunWatch, interval: float) -> None:
        super().__init__(interval)
        self.watched = watched

    def ask(self, question: str, verb: str, *options: str) -> None:
        """Start a command on the run if the user says yes."""
        words = (verb, self.watched.paths.run_id, *options)
        self.app.push_screen(
            Confirmation(question, words), lambda answer: self.start(verb, *options) if answer else None
        )

    def start(self, verb: str, *options: str) -> None:
        """Run a command on the run, and show its output."""
        words = (verb, self.watched.paths.run_id, *options)
        self.notify(f"diel {' '.join(words)} …", timeout=3)

        def tell() -> None:
            self.app.call_from_thread(
                self.app.push_screen, AnswerScreen(*execute(self.watched.paths, *words))
            )

        self.run_worker(tell, thread=True, group="command")

    def show_below(self, around: VerticalScroll, texts: Sequence[Text], classes: str = "") -> None:
        """Show texts below each other, in the widgets that are there and in new ones."""
        shown = list(around.query(Static))
        for place, text in enumerate(texts):
            if place < len(shown):
                shown[place].update(text)
            else:
                around.mount(Static(text, classes=classes, markup=False))


MOST_LINES = 10_000
MOST_METRICS = 20_000
CHART = 10


class TaskScreen(RunCommandScreen):
    """A task of a run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "explain", "explain"),
        Binding("end", "end", "follow"),
        Binding("escape,backspace", "app.pop_screen", "back"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, watched: RunWatch, stage: str, index: int, interval: float) -> None:
        super().__init__(watched, interval)
        self.stage, self.index = stage, index
        self.named = f"{stage}/{index}"
        self._followed = TaskFiles(stage, index)
        self._news: list[tuple[str, str]] = []
        self._metrics: list[str] = []
        self._outputs = ""
        """What the task made, and how long it took, once it is done."""

    def compose(self) -> ComposeResult:
        yield Static(self.named, id="head", markup=False)
        yield VerticalScroll(id="metrics")
        yield RichLog(max_lines=MOST_LINES, wrap=True, auto_scroll=False, min_width=20)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(RichLog).border_title = "what it prints (! is stderr)"
        self.query_one(RichLog).focus()
        super().on_mount()

    def on_unmount(self) -> None:
        self._followed.close()

    def look(self) -> None:
        self.watched.look()
        if self.watched.reader is not None:
            self._news += self._followed.news(self.watched.reader)
        if not self._outputs and self.watched.stage(self.stage).is_good(self.index):
            self._outputs = made_text(self.watched.result(self.stage, self.index))

    def draw(self) -> None:
        news, self._news = self._news, []
        log = self.query_one(RichLog)
        lines = [_line(kind, line) for kind, line in news if kind != "metrics"]
        if lines:
            log.write(Text("\n").join(lines), scroll_end=log.is_vertical_scroll_end)
        if fresh := [line for kind, line in news if kind == "metrics"]:
            self._metrics = [*self._metrics, *fresh][-MOST_METRICS:]
            width = max(self.size.width - 4, 30)
            drawn = [draw(chart, width, CHART) for chart in metric_charts(self._metrics)]
            self.show_below(self.query_one("#metrics", VerticalScroll), drawn)
        self.query_one("#head", Static).update(self._head(nothing=not log.lines and not lines))

    def _head(self, *, nothing: bool) -> Text:
        status, history = self.watched.status, self.watched.stage(self.stage)
        state, attempt = self.watched.state(self.stage, self.index), history.under_way.get(self.index)
        live = status is not None and status.state.live
        parts = [Text.assemble((self.named, "bold"), " ", state_text(state.label))]
        if attempt is not None and live and status is not None and attempt.state == TaskState.RUNNING:
            parts.append(Text(f"for {format_duration(max(0.0, status.now - attempt.time))}"))
            parts.append(Text(f"attempt {attempt.number}"))
        elif (number := history.latest(self.index)) > 1:
            parts.append(Text(f"attempt {number}"))
        lines = [Text(" · ").join(parts)]
        if point := point_text(self.watched.point(self.stage, self.index)):
            lines.append(Text(point, style="grey70"))
        if self._outputs:
            lines.append(Text(self._outputs, style="grey70"))
        reader = self.watched.reader
        record = None if reader is None else reader.history.failures.get((self.stage, self.index))
        if record is not None:
            lines += [Text.from_ansi(line) for line in failure_lines(record)[:3]]
        if self._followed.why and not record:
            lines.append(Text(self._followed.why, style="grey62"))
        elif nothing:
            lines.append(Text(f"it has printed nothing{'' if state.ended else ' yet'}", style="grey62"))
        if status is not None and not status.state.live and not status.state.ended:
            lines.append(Text("‖ the run's controller is gone", style="bold"))
        return Text("\n").join(lines)

    def action_end(self) -> None:
        self.query_one(RichLog).scroll_end(animate=False)

    def action_explain(self) -> None:
        self.start("explain", self.named)


def made_text(record: Result | None) -> str:
    """Return the outputs of a task: `in 2.1s: energy=-3.2; used 1.9 s of processors, 310.0 MiB`."""
    if record is None:
        return ""
    files = {name: artifact.get("path") for name, artifact in record.get("artifacts", {}).items()}
    outputs = record.get("values", {}) | files
    used: Any = record.get("usage") or {}
    parts = [
        point_text(outputs),
        f"used {used['cpu_seconds']:.1f} s of processors" if "cpu_seconds" in used else "",
        format_size(used["memory_bytes"]) if "memory_bytes" in used else "",
    ]
    return f"in {format_duration(record['seconds'])}: {'; '.join(filter(None, parts))}"


def _line(kind: str, line: str) -> Text:
    if not kind:
        return Text(f"── {line} ──", style="grey62")
    if kind == "stderr":
        return Text.assemble(("! ", "#ff8a3d"), harmless(line))
    return Text(f"  {harmless(line)}")


FIRST = 1 << 18
"""Bytes at the end of a long file that are read at first."""
MOST = 1 << 20
"""Bytes that one look reads at most; the next one goes on."""


class TaskFiles:
    """The files of a task's latest attempt. A worker moves them when the task ends; they stay open here."""

    def __init__(self, stage: str, index: int) -> None:
        self.stage, self.index = stage, index
        self.attempt = 0
        self.why = ""
        """Why there is nothing to read."""
        self._closed = False
        self._lock = threading.Lock()
        self._files: dict[str, BinaryIO] = {}
        self._torn: dict[str, bytes] = {}
        """The beginning of a line whose end is not yet there, by file."""

    def news(self, reader: Reader) -> list[tuple[str, str]]:
        """Return the new whole lines since the last call, each with its file: stdout, stderr, metrics."""
        with self._lock:  # a screen may close it while its thread is here
            return [] if self._closed else [*self._news(reader)]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._let_go()

    def _news(self, reader: Reader) -> Iterator[tuple[str, str]]:
        try:
            output = find_output(reader, self.stage, self.index)
            self.why = ""
        except (DielError, OSError) as error:
            self.why = str(error)
            return
        if output.attempt != self.attempt:
            yield from self._read()  # the end of the attempt before
            self._let_go()
            if self.attempt:
                yield "", f"attempt {output.attempt}"
            self.attempt = output.attempt
        for kind in (*PRINTED, "metrics"):
            if kind not in self._files:
                yield from self._open(kind, output.path(kind))
        yield from self._read()
        if output.state.ended:
            yield from ((kind, line.decode("utf-8", "replace")) for kind, line in self._torn.items() if line)
            self._torn.clear()

    def _open(self, kind: str, path: Path) -> Iterator[tuple[str, str]]:
        try:
            self._files[kind] = file = open(path, "rb")  # noqa: SIM115 - stays open
        except OSError:
            return
        size = os.fstat(file.fileno()).st_size
        if size > FIRST:
            file.seek(size - FIRST)
            file.readline()
            if kind != "metrics":
                yield kind, f"… {file.tell():,} bytes before this: `diel logs` shows all"

    def _read(self) -> Iterator[tuple[str, str]]:
        for kind, file in self._files.items():
            *lines, torn = (self._torn.get(kind, b"") + file.read(MOST)).split(b"\n")
            self._torn[kind] = torn
            yield from ((kind, line.decode("utf-8", "replace")) for line in lines)

    def _let_go(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._torn.clear()


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
        """Show these tasks, in ascending order; the cursor stays on its task if that is still among them."""
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
