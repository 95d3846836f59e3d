"""Markdown as reports write it: tables, and text that stays text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_ROWS = 20
"""Rows of a table: trials of a front, rounds, failures. The rest is counted."""
LINE = 200
"""Characters of a message."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table, and an empty line."""
    yield f"| {' | '.join(plain(cell) for cell in header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(plain(cell) for cell in row)} |" for row in rows)
    yield ""


def rest(whole: int, what: str) -> Iterator[str]:
    """That a table shows only the first rows, where it does."""
    if whole > MAX_ROWS:
        yield f"and {whole - MAX_ROWS:,} more {what}."
        yield ""


def cut(text: str) -> str:
    """The beginning of a long message."""
    return text if len(text) <= LINE else f"{text[: LINE - 1]}…"


def plain(text: str) -> str:
    """Text that stays text in Markdown: on one line, no cell ended, no tag begun."""
    told = "".join(char if char.isprintable() else " " for char in text)
    for char, escaped in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;")):
        told = told.replace(char, escaped)
    return told
