"""What a view starts: `cancel`, `resume` and `explain`, as commands; the first two after asking."""

from __future__ import annotations

import subprocess
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Footer, Static

from diel.carried import PYTHON
from diel.paths import RunPaths
from diel.project.submission import newest_submission

PATIENCE = 120.0
"""Seconds that a command may take."""


class Said(NamedTuple):
    """A command, and what it said."""

    words: tuple[str, ...]
    code: int
    text: str


def cancel_words(paths: RunPaths) -> tuple[str, ...]:
    """The command that cancels a run."""
    return ("cancel", paths.run_id, "--no-wait")


def resume_words(paths: RunPaths) -> tuple[str, ...]:
    """The command that continues a run: as it was submitted, or with a controller that outlives the view."""
    return ("resume", paths.run_id, *(() if newest_submission(paths) is not None else ("--home", "login")))


def execute(paths: RunPaths, *words: str) -> Said:
    """Runs a command on a run to its end."""
    command = [*PYTHON, "-m", "diel", *words, "--runs", str(paths.root.parent)]
    try:
        made = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Said(words, 1, f"it has not ended after {PATIENCE:.0f} s")
    return Said(words, made.returncode, (made.stdout + made.stderr).strip())


class Asking(ModalScreen[bool]):
    """Asks whether to start a command."""

    DEFAULT_CSS = """
    Asking { align: center middle; }
    Asking > Vertical { width: 70; max-width: 95%; height: auto; padding: 0 1; }
    Asking > Vertical { border: round $foreground; background: $surface; }
    Asking Horizontal { height: auto; align-horizontal: right; }
    Asking Button { margin-left: 2; }
    """
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


class Told(ModalScreen[None]):
    """What a command said."""

    DEFAULT_CSS = """
    Told { align: center middle; }
    Told > VerticalScroll { width: 96%; height: 90%; padding: 0 1; }
    Told > VerticalScroll { border: round $foreground; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "back")]

    def __init__(self, said: Said) -> None:
        super().__init__()
        self._said = said

    def compose(self) -> ComposeResult:
        said = self._said
        with VerticalScroll() as around:
            around.border_title = f"diel {' '.join(said.words)}" + (
                f" (exit {said.code})" if said.code else ""
            )
            yield Static(said.text or "it said nothing", markup=False)
        yield Footer()
