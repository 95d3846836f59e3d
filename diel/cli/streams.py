"""Streams as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.errors import counted
from diel.status import Status

MOST = 10
"""Channels shown; a run with matched axes may have thousands."""


def stream_lines(status: Status) -> list[str]:
    """A line a channel: how many items, whether more may come, and who is how far behind."""
    if not status.streams:
        return []
    lines = [_line(name, facts) for name, facts in list(status.streams.items())[:MOST]]
    more = len(status.streams) - MOST
    return ["", *lines, *([f"and {more:,} more streams"] if more > 0 else [])]


def _line(name: str, facts: Mapping[str, Any]) -> str:
    behind = [
        group.get("waiting", 0) for group in facts.get("groups", {}).values() if not group.get("settled")
    ]
    told = f"stream {name}: {counted(facts.get('items', 0), 'item')}"
    told += ", complete" if facts.get("closed") else ""
    told += f", broken: {facts['broken']}" if facts.get("broken") else ""
    return told + (f", {max(behind):,} of them unread" if behind and max(behind) else "")
