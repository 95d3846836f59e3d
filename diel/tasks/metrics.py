"""A task's reports while it runs: lines of JSON in a file of each attempt, read as it grows."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.values import is_finite, read_json

FILE = ".metrics.jsonl"
STEPS = ("step", "epoch", "iteration")
"""Metrics that show how far a task is; without one, its lines are counted."""


class Metrics:
    """The metrics of one attempt, read as they grow."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines = 0

    def read(self, metric: str) -> Iterator[tuple[int, float]]:
        """Yield the new values of a metric, each with its step."""
        for record in self._new():
            value = record.get(metric)
            if is_finite(value):
                self._lines += 1
                step = _step_of(record)
                yield self._lines - 1 if step is None else record[step], float(value)

    def _new(self) -> Iterator[Mapping[str, Any]]:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._offset += len(line)
                    try:
                        record = read_json(line)
                    except (ValueError, RecursionError):
                        continue
                    if isinstance(record, dict):
                        yield record
        except OSError:
            return

    def all(self) -> "Iterator[Metric]":
        """Yield all reports in their order; lines of a metric without steps are counted."""
        lines: dict[str, int] = {}
        for record in self._new():
            step, time = _step_of(record), record.get("time")
            for name, value in record.items():
                if name not in ("time", step) and isinstance(value, int | float | str):
                    number = lines[name] = lines.get(name, -1) + 1
                    at = number if step is None else record[step]
                    yield Metric(name, at, value, float(time) if is_finite(time) else None)


class Metric(NamedTuple):
    """One value that a task reported."""

    name: str
    step: int
    value: float | str
    time: float | None
    """In seconds since the epoch; programs need not tell it."""


def _step_of(record: Mapping[str, Any]) -> str | None:
    """Return the metric of a task's progress, for pruners: a whole number that fits into 64 bits."""
    for name in STEPS:
        value = record.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return name
    return None
