"""The parts of explanations: a document for programs and lines for people, from the same facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from diel.errors import counted
from diel.status.columns import printable

TAIL_LINES = 12
"""The most lines of a failed task's error output to show; `diel logs` has all."""
WIDE = 100


@dataclass(frozen=True)
class Explanation:
    """An answer, or a part of one."""

    document: dict[str, Any]
    """What `--json` prints."""
    lines: list[str] = field(default_factory=list)


def documents(parts: Iterable[Explanation]) -> list[dict[str, Any]]:
    return [part.document for part in parts]


def section(title: str, entries: Mapping[str, str]) -> Iterator[str]:
    """Names and texts in two columns, below a title; nothing if there are none."""
    if entries:
        yield from ("", title)
        width = max(map(len, entries))
        yield from (f"    {name.ljust(width)}{'  ' if width else ''}{text}" for name, text in entries.items())


def tail(text: str) -> Iterator[str]:
    """The last lines of what a program wrote."""
    lines = text.rstrip().splitlines()
    if len(lines) > TAIL_LINES:
        yield f"    │ … {counted(len(lines) - TAIL_LINES, 'line')} before"
    yield from (f"    │ {printable(line)}" for line in lines[-TAIL_LINES:])
