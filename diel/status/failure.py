"""A failure as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diel.status.columns import last_line, paint, printable, shorten
from diel.status.run import failure_document

if TYPE_CHECKING:
    from diel.journal.records import Failed


def failure_lines(record: Failed) -> list[str]:
    """A failure in one line or two: the task, its class and message, the end of its stderr."""
    told = failure_document(record)
    message = shorten(printable(str(told["message"]).strip()), 300)
    tolerated = f" (tolerated by {told['tolerated']})" if told["tolerated"] else ""
    lines = [f"{paint(told['task'], fg='red')}  {told['class']}: {message}{tolerated}"]
    tail = last_line(told["stderr_tail"])
    if tail and tail not in message:
        lines.append(paint(f"    {shorten(tail, 200)}", dim=True))
    return lines
