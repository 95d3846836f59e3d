"""Which of diel's files a call enters: those of the functions that it runs, but for what runs while importing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import diel

_PACKAGE = f"{Path(diel.__file__).parent}/"
_OPTIMIZED = 0x1
"""Set in the code of functions, not in that of modules and classes."""


def entered(call: Callable[[], Any]) -> set[str]:
    """The files below `diel/` of which `call` runs a function, in this thread or one that it starts.

    They are named as in `planning/check/names.py`. Where a function runs because a file is imported, it does not count.
    """
    found: set[str] = set()
    importing = threading.local()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code, depth = frame.f_code, getattr(importing, "depth", 0)
        if code.co_name == "<module>":
            importing.depth = depth + {"call": 1, "return": -1}.get(event, 0)
        elif (
            event == "call"
            and not depth
            and code.co_flags & _OPTIMIZED
            and code.co_filename.startswith(_PACKAGE)
        ):
            found.add(code.co_filename.removeprefix(_PACKAGE))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found
