"""What was copied to the nodes' own disks, as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.errors import counted
from diel.status.columns import paint, printable
from diel.values import format_size

SHOWN = 4
"""Nodes whose warnings are shown, unless all are wanted."""


def staging_lines(found: Mapping[str, Mapping[str, Any]], *, show_all: bool = False) -> list[str]:
    """How much was copied to how many nodes, and which nodes could not take it."""
    copied = sum(node["copied"] for node in found.values())
    lines = []
    if copied:
        size = format_size(sum(node["bytes"] for node in found.values()))
        what = "1 copy" if copied == 1 else f"{copied:,} copies"
        where = counted(sum(bool(node["copied"]) for node in found.values()), "node")
        lines.append(f"staging: {what}, {size}, on the disks of {where}")
    bad = [(name, node) for name, node in found.items() if node["warnings"]]
    for name, node in bad if show_all else bad[:SHOWN]:
        who = counted(node["warnings"], "task")
        message = f"warning: {name}: {printable(node['warning'])}; {who} used the shared file system"
        lines.append(paint(message, fg="yellow"))
    if not show_all and len(bad) > SHOWN:
        lines.append(f"{counted(len(bad) - SHOWN, 'node')} more with a warning; --all shows them")
    return lines
