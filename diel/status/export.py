"""What a run put in place for people, and what it could not, as lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from diel.errors import counted
from diel.status.columns import paint, printable


def unexported(exports: Mapping[str, Mapping[str, Any]]) -> str:
    """Why something was not put in place, and what to do; empty if all was."""
    told = next((one["message"] for one in exports.values() if one["failed"]), "")
    return f"not exported: {told}; `diel resume` tries again" if told else ""


def export_lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Where the files of each output went; why some did not."""
    lines = []
    for name, one in found.items():
        if one["files"]:
            folder = os.path.relpath(one["folder"])
            folder = one["folder"] if folder.startswith("../..") else folder
            lines.append(f"exported: {counted(one['files'], 'file')} of {name} to {printable(folder)}")
        if kept := one.get("kept"):
            lines.append(f"{counted(kept, 'export')} of {name} met another file: {printable(one['why'])}")
        if one["failed"]:
            more = f", and {one['failed'] - 1:,} more" if one["failed"] > 1 else ""
            lines.append(paint(f"not exported: {printable(one['message'])}{more}", fg="red"))
    return lines
