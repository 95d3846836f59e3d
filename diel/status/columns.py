"""Plain tables and colours for the terminal, without a library that takes time to load."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence

COLOURS = {
    "succeeded": "green",
    "done": "green",
    "cached": "cyan",
    "running": "blue",
    "failed": "red",
    "skipped": "yellow",
    "cancelled": "yellow",
    "interrupted": "yellow",
}
"""Colours of states."""


_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}
_STYLE = re.compile(r"\033\[\d+m")


def paint(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Styled text; `click.echo` takes the style off where it is not for a terminal."""
    styles = [*([fg] if fg else []), *(["bold"] if bold else []), *(["dim"] if dim else [])]
    if not styles or os.environ.get("NO_COLOR"):
        return text
    return "".join(f"\033[{_CODES[style]}m" for style in styles) + f"{text}\033[0m"


def paint_state(state: str) -> str:
    """A state's name in its colour."""
    return paint(state, fg=COLOURS.get(state), bold=state in ("failed", "succeeded"))


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows of cells as aligned lines; `right` names the columns that are aligned to the right."""
    if not rows:
        return []
    widths = [max(width_of(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for place, cell in enumerate(row):
            space = " " * (widths[place] - width_of(cell))
            cells.append(space + cell if place in right else cell + space)
        lines.append("  ".join(cells).rstrip())
    return lines


def width_of(text: str) -> int:
    """Columns that a text takes on a terminal, styles left out."""
    plain = _STYLE.sub("", text)
    if plain.isascii():
        return len(plain)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain
    )


def printable(text: str) -> str:
    """Text of a task that is safe to show: control characters would move the cursor or worse."""
    return "".join(c if c.isprintable() else " " if c in "\t\n" else "�" for c in text)


def shorten(text: str, width: int) -> str:
    """At most `width` characters of one line."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def bar(part: int, whole: int | None, width: int = 10) -> str:
    """A bar of text: `████░░░░░░`; full only when all is there."""
    if not whole:
        return "░" * width
    filled = min(width * part // whole, width)
    return "█" * filled + "░" * (width - filled)


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else ""


def tasks_text(pairs: Sequence[Sequence[int]], limit: int = 12) -> str:
    """Indices as ranges: `0-46,48,50-95`; the rest counted where there are many."""
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in pairs[:limit]]
    rest = sum(last - first + 1 for first, last in pairs[limit:])
    return ",".join(shown) + (f" and {rest} more" if rest else "")
