"""Tables and text for people, on a terminal and in Markdown, without a library that is slow to load."""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence

from diel.base.values import bare

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
MAX_ROWS = 20
"""The most rows of a table in Markdown; the rest are counted."""
LINE = 200
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}
_STYLE = re.compile(r"\033\[\d+m")


def paint(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Return styled text; `click.echo` removes the style unless it writes to a terminal."""
    styles = [style for style, on in ((fg, fg), ("bold", bold), ("dim", dim)) if style and on]
    if not styles or os.environ.get("NO_COLOR"):
        return text
    return "".join(f"\033[{_CODES[style]}m" for style in styles) + f"{text}\033[0m"


def paint_state(state: str) -> str:
    """Return a state's name in its colour."""
    return paint(state, fg=COLOURS.get(state), bold=state in ("failed", "succeeded"))


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return rows of cells as aligned lines; `right` names the columns aligned to the right."""
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for place, cell in enumerate(row):
            space = " " * (widths[place] - width_of(cell))
            cells.append(space + cell if place in right else cell + space)
        lines.append("  ".join(cells).rstrip())
    return lines


def width_of(text: str) -> int:
    """Return the columns that a text takes on a terminal, without its styles."""
    plain = _STYLE.sub("", text)
    if plain.isascii():
        return len(plain)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain
    )


def printable(text: str) -> str:
    """Return a task's text, safe to show: control characters would move the cursor or worse."""
    return "".join(c if c.isprintable() else " " if c in "\t\n" else "�" for c in bare(text))


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def shorten(text: str, width: int) -> str:
    """Return at most `width` characters of one line."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def last_line(text: str) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else ""


def tasks_text(pairs: Sequence[Sequence[int]], limit: int = 12) -> str:
    """Return indices as ranges: `0-46,48,50-95`; of many, the rest are counted."""
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in pairs[:limit]]
    rest = sum(last - first + 1 for first, last in pairs[limit:])
    return ",".join(shown) + (f" and {rest} more" if rest else "")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table, and an empty line."""
    yield f"| {' | '.join(map(plain, header))} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(map(plain, row))} |" for row in rows)
    yield ""


def plain(text: str) -> str:
    """Return a text that stays text in Markdown: on one line, ending no cell, beginning no tag."""
    line = "".join(char if char.isprintable() else " " for char in bare(text))
    return line.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
