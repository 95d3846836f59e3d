"""What running tasks report of themselves, read as their files grow."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

from diel.values import as_float

_STEPS = ("step", "epoch", "iteration")
"""Metrics that tell how far a task is; without one, its lines are counted."""


class Metrics:
    """The metrics of one attempt, read as they grow."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines = 0

    def read(self, metric: str) -> Iterator[tuple[int, float]]:
        """The new values of a metric, each with its step."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._offset += len(line)
                    found = _reported(line, metric)
                    if found is not None:
                        self._lines += 1
                        step, value = found
                        yield self._lines - 1 if step is None else step, value
        except OSError:
            return


def _reported(line: bytes, metric: str) -> tuple[int | None, float] | None:
    try:
        record = json.loads(line)
        value = record[metric]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(as_float(value)):
        return None
    return next((record[name] for name in _STEPS if _is_step(record.get(name))), None), float(value)


def _is_step(value: object) -> bool:
    """Whether a pruner can take it for a step: a whole number that fits into 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
