"""What one check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    """What to do; empty if nothing is wrong."""
    required: bool = True
    """Whether every workflow needs it."""
