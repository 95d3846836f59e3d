"""What an attempt reads is what was made, or what the run first read, before the attempt and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from diel.artifacts import ReadFiles
from diel.artifacts.identity import FirstLook
from diel.attempt.bundle import Failure
from diel.states import FailureClass


@contextmanager
def held_to_files(
    watched: Sequence[FirstLook], reads: Mapping[str, Any] | None, reader: str = "it"
) -> Iterator[None]:
    """Compare what a task reads, or who answers it, before and after. Raise Changed.

    Files that lie where their user has them are compared whatever else the task did.
    """
    files = ReadFiles(reads, watched, reader)
    files.begin()
    try:
        yield
    except Failure as failure:
        if failure.kind not in (FailureClass.CANCELLED, FailureClass.INTERRUPTED):
            files.end(failed=True)
        raise
    files.end()
