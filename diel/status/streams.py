"""How the streams of a run stand, as its controller was told last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from diel.paths import RunPaths


def streams_of(paths: RunPaths) -> dict[str, Mapping[str, Any]]:
    """By channel: items, whether it is closed, and how far each group of readers has come."""
    try:
        text = paths.stream_facts.read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError):
        return {}  # no stream was opened yet
    return {name: found[name] for name in sorted(found)} if isinstance(found, dict) else {}
