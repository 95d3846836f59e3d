"""How states look: each has a mark and a colour, so that nobody needs to see the colour.

The colours are those of Okabe and Ito, which people with any colour vision tell apart
(https://jfly.uni-koeln.de/color/); two of them are lighter here, to be read on black.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.terminal_theme import TerminalTheme
from rich.text import Text

from diel.states import TaskState
from diel.status.columns import printable
from diel.status.stage import count_text
from diel.values import bare

MARKS = {
    "waiting": ("·", "grey62"),
    "ready": ("○", "grey62"),
    "queued": ("◔", "grey78"),
    "pending": ("◔", "grey78"),
    "running": ("▶", "#56b4e9"),
    "done": ("✓", "#2fc79a"),
    "succeeded": ("✓", "#2fc79a"),
    "cached": ("≡", "#2fc79a"),
    "failed": ("✗", "#ff8a3d"),
    "skipped": ("−", "#f0e442"),
    "cancelled": ("⊘", "#e69fc7"),
    "interrupted": ("‖", "#f0e442"),
}
"""By state of a task or run: its mark and its colour."""
_BLACK, _WHITE = (18, 18, 18), (224, 224, 224)
_WARM = [(255, 138, 61), (47, 199, 154), (240, 228, 66)]
_COLD = [(86, 180, 233), (230, 159, 199), (47, 199, 154)]
ANSI = TerminalTheme(_BLACK, _WHITE, [_BLACK, *_WARM, *_COLD, _WHITE])
"""The same colours for the text of commands: black, red, green, yellow, blue, magenta, cyan, white."""
_FILLS = {
    TaskState.DONE: "█",
    TaskState.CACHED: "▓",
    TaskState.RUNNING: "▶",
    TaskState.FAILED: "✗",
    TaskState.CANCELLED: "⊘",
    TaskState.SKIPPED: "−",
}
"""What fills the bar of a stage, in this order; the rest of it is to come."""


def state_text(state: str, count: int | None = None, tolerated: int = 0) -> Text:
    """A state in its colour, behind its mark: `✗ failed`, `✗ 3 failed, 1 of them tolerated`."""
    mark, colour = MARKS[state]
    words = state if count is None else count_text(TaskState[state.upper()], count, tolerated)
    return Text(f"{mark} {words}", style=colour)


def bar(counts: Mapping[str, int], total: int | None, width: int) -> Text:
    """A stage's tasks as a bar; a state that any task has gets a cell of it at least."""
    drawn, so_far, place = Text(), 0, 0
    for state, fill in _FILLS.items():
        count = counts[state.label]
        if count and total:
            so_far += count
            end = min(width, max(place + 1, width * so_far // total))
            drawn.append(fill * (end - place), style=MARKS[state.label][1])
            place = end
    return drawn.append("░" * (width - place), style="grey50")


def harmless(line: str) -> str:
    """A line that a task printed, safe to show: of a line that was drawn over, what was drawn last."""
    return printable(bare(line.rstrip("\r\n").rpartition("\r")[2]).expandtabs(4))
