"""Whether a program could write: where the run's file system is full, it is not to blame for its failure."""

from __future__ import annotations

import os

LEAST = 64 * 1024
"""Bytes; a file system with less counts as full."""


def is_full(folder: str) -> bool:
    """Whether the file system of a folder has no room left."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < LEAST
