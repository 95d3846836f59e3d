"""An attempt succeeds only if the files that it reads where they lie stay as the run first read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from diel.artifacts.watched import Changed, hold, hold_still
from diel.attempt.bundle import Failure, Request, Work
from diel.states import FailureClass

_STOPPED = (FailureClass.CANCELLED, FailureClass.INTERRUPTED)


@contextmanager
def held_to_files(work: Work, request: Request) -> Iterator[None]:
    """Compare the files of a task before and after it. Raises Failure (`changed`), whatever else it did."""
    watched = (*work.watched, *request.watched)
    if not watched:
        yield
        return
    try:
        before = [hold(one) for one in watched]
        failure = None
        try:
            yield
        except Failure as error:
            failure = error
        for one, state in zip(watched, before, strict=True):
            if failure is None or failure.kind not in _STOPPED:
                hold_still(one, state)
    except Changed as error:
        raise Failure(FailureClass.CHANGED, str(error)) from error
    if failure is not None:
        raise failure
