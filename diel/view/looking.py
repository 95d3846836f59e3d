"""A screen that looks again every second or so, in a thread of its own, and never takes most of a core."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Footer, Static
from textual.worker import Worker, WorkerState

from diel.carried import PYTHON
from diel.errors import MISTAKE
from diel.paths import RunPaths
from diel.view.watched import Watched

SHARE = 5
"""Looking takes at most one part in this many of the time."""
LONGEST = 10.0
"""Seconds after which it looks again, however long the last look took."""


class Looking(Screen[None]):
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


class Asking(ModalScreen[bool]):
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


class WatchedScreen(Looking):
    """A run, or a task of it, and commands on it."""

    def __init__(self, watched: Watched, interval: float) -> None:
        super().__init__(interval)
        self.watched = watched

    def ask(self, question: str, verb: str, *options: str) -> None:
        """Start a command on the run if the user says yes."""
        words = (verb, self.watched.paths.run_id, *options)
        self.app.push_screen(
            Asking(question, words), lambda answer: self.start(verb, *options) if answer else None
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
