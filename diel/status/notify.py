"""Whom a run told what, and where that failed: its notices, read from their own files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.journal.segment import read_segment
from diel.paths import RunPaths
from diel.status.columns import paint, printable


def notices_of(paths: RunPaths) -> dict[str, dict[str, Any]]:
    """By `ended-1.mail-1` what was told: kind, way, state (sending, sent, failed), time, message."""
    found = {}
    for file in sorted(paths.notices.glob("*.jsonl")):
        records: list[Any] = [record for _, _, record in read_segment(file) if record is not None]
        if records:
            last = records[-1]
            keys = ("kind", "way", "state", "time", "message")
            found[file.stem] = {key: last[key] for key in keys if key in last}
    return found


def notice_lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What was told in one line; each address that failed with its reason, once."""
    sent = {one["kind"]: None for one in found.values() if one.get("state") == "sent"}
    lines = [f"told: {', '.join(sent)}"] if sent else []
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in found.values():
        if one.get("state") == "failed":
            reasons.setdefault((str(one["way"]), str(one.get("message", ""))), []).append(str(one["kind"]))
    for (way, message), kinds in reasons.items():
        lines.append(paint(f"not told by {way} ({', '.join(kinds)}): {printable(message)}", fg="red"))
    return lines
