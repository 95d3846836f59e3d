"""Streams of one attempt: what its module or command learns about them, and how they end with it."""

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diel.base.errors import StreamBroken, StreamError, StreamLost
from diel.base.states import FailureClass
from diel.worker.attempt.bundle import Failure, Request, Work
from diel.worker.context import Context


def stream_environment(work: Work, request: Request) -> dict[str, str]:
    """Return what `diel stream` reads: the task's ends, and whether its launcher's words are its own."""
    member = {"member": f"{work.stage}/{request.index}", "attempt": request.attempt}
    ends = {name: {**end, **member} for name, end in (request.streams or {}).items()}
    return {"DIEL_STREAMS": json.dumps(ends), "DIEL_RANKED": "1" if work.launcher else ""}


@contextmanager
def held_to_streams(run_dir: str, work: Work, request: Request) -> Iterator[None]:
    """Let an attempt succeed only if the streams that it read and wrote are complete.

    A command may overlook that its stream is broken, and a function may catch it. Raise Failure: `upstream`
    where what it read is broken, also if it failed by that; `app` where it did not put all; `node` where who
    read or put was killed, and where nobody can tell.
    """
    if request.streams is None or work.service is not None:
        yield
        return
    try:
        yield
    except Failure as failure:
        with contextlib.suppress(StreamError):
            if failure.kind == FailureClass.APP:
                for kind, flaw in _flaws(run_dir, work, request):
                    if kind == FailureClass.UPSTREAM:
                        raise Failure(kind, f"{flaw} ({failure.message})", failure.exit_code) from failure
        raise
    try:
        for kind, flaw in _flaws(run_dir, work, request):
            raise Failure(kind, flaw)
    except StreamError as error:
        raise Failure(FailureClass.NODE, f"whether its streams are complete is unknown: {error}") from error


def _flaws(run_dir: str, work: Work, request: Request) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the streams that a task read, then with those that it wrote."""
    from diel.streams.client import connect  # only here: most tasks have no streams

    task = f"{work.stage}/{request.index}"
    for end in sorted((request.streams or {}).values(), key=lambda end: end["role"]):
        flaw = connect(Path(run_dir)).flaw(end, task, request.attempt, goes_on=work.checkpoint)
        if flaw[0]:
            yield flaw


def close_streams(context: Context, *, good: bool) -> None:
    """Flush a function's written streams, close those it read. Raises Failure if an item could not be put."""
    from diel.streams.client import connect  # only here: most tasks have no streams

    try:
        connect(Path(context.run_dir)).leave(context.member, context.attempt)
    except StreamError as error:
        if good:
            raise Failure(FailureClass.NODE, f"its streams could not be closed: {error}") from error


def class_of(error: BaseException) -> FailureClass:
    """Return the class of a failure, by what a function raised."""
    if isinstance(error, StreamLost):
        return FailureClass.NODE
    if isinstance(error, StreamBroken):
        return FailureClass.UPSTREAM
    return FailureClass.OOM if isinstance(error, MemoryError) else FailureClass.APP
