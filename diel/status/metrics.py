"""The metrics that a running task has written so far, read from the end of their file."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from diel.values import as_float

TAIL = 64 * 1024
"""Bytes from the end that are looked at."""
STEPS = ("step", "epoch", "iteration")
"""Metrics that tell how far a task is."""


def last_metric(path: Path, metric: str) -> tuple[int | None, float] | None:
    """Step and value of the last line that has a metric; None where there is none.

    The step is None where no line tells it, and lines were cut off so that they cannot be counted.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL))
            lines = file.read().split(b"\n")[:-1]  # the last one may not be whole yet
    except OSError:
        return None
    found = None
    count = 0
    for line in lines:
        told = _told(line, metric)
        if told is not None:
            step, value = told
            found = (count if step is None and size <= TAIL else step), value
            count += 1
    return found


def _told(line: bytes, metric: str) -> tuple[int | None, float] | None:
    try:
        content = json.loads(line)
        value = content[metric]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(as_float(value)):
        return None
    steps = (content[name] for name in STEPS if isinstance(content.get(name), int))
    return next(steps, None), float(value)
