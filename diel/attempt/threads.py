"""Threads that a function leaves behind: they would write into the output and directories of later tasks."""

from __future__ import annotations

import threading
from collections.abc import Set

_HARMLESS = ("tqdm",)
"""Packages whose threads write nothing."""


def running() -> Set[threading.Thread]:
    """Return the threads that may write: all but diel's own and those of harmless packages."""
    return {
        thread
        for thread in threading.enumerate()
        if not thread.name.startswith("diel-") and type(thread).__module__.partition(".")[0] not in _HARMLESS
    }
