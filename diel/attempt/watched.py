"""What an attempt reads is what was made, or what the run first read, before the attempt and after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from diel.artifacts import ReadFiles
from diel.artifacts.watched import Changed, FirstLook, hold, hold_still
from diel.attempt.bundle import Failure
from diel.states import FailureClass

_STOPPED = (FailureClass.CANCELLED, FailureClass.INTERRUPTED)
_RULE = "a task leaves its inputs as they are: let it write to a copy"


@contextmanager
def held_to_files(
    watched: Iterable[FirstLook], reads: Mapping[str, Any] | None, reader: str = "it"
) -> Iterator[None]:
    """Compare what a task reads, or who answers it, before and after. Raises Changed.

    Files that lie where their user has them are compared whatever else the task did.
    """
    files = ReadFiles(reads or {})
    if changes := files.look(ended=False):
        raise Changed(f"what {reader} reads has changed since it was made: {changes}")
    states = [(one, hold(one)) for one in watched]
    try:
        yield
    except Failure as failure:
        if failure.kind not in _STOPPED:
            _hold_still(states)
        raise
    _hold_still(states)
    if changes := files.look(ended=True):
        if reader != "it":
            raise Changed(f"what {reader} reads has changed since it was made: {changes}")
        raise Changed(f"what it reads changed while it ran: {changes}; {_RULE}")


def _hold_still(states: Iterable[tuple[FirstLook, tuple[str, int]]]) -> None:
    for one, state in states:
        hold_still(one, state)
