"""The state of a run's streams, as their broker last reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diel.errors import counted
from diel.paths import RunPaths

MOST = 10
"""The most channels to show; a run with matched axes can have thousands."""


def facts_file(paths: RunPaths) -> Path:
    """The state of the channels, as the broker last reported it."""
    return paths.streams / "facts.json"


def streams_of(paths: RunPaths) -> dict[str, Mapping[str, Any]]:
    """By channel: items, whether it is closed, and how far each group of readers has come."""
    try:
        found = json.loads(facts_file(paths).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: found[name] for name in sorted(found)} if isinstance(found, dict) else {}


# --- in words -------------------------------------------------------------------------------------


def stream_lines(streams: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each channel: how many items, whether more can come, and how far each reader is behind."""
    lines = [_line(name, facts) for name, facts in list(streams.items())[:MOST]]
    more = len(streams) - MOST
    return [*lines, *([f"and {more:,} more streams"] if more > 0 else [])]


def _line(name: str, facts: Mapping[str, Any]) -> str:
    behind = [
        group.get("waiting", 0) for group in facts.get("groups", {}).values() if not group.get("settled")
    ]
    line = f"stream {name}: {counted(facts.get('items', 0), 'item')}"
    line += ", complete" if facts.get("closed") else ""
    line += f", broken: {facts['broken']}" if facts.get("broken") else ""
    return line + (f", {max(behind):,} of them unread" if behind and max(behind) else "")
