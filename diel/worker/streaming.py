"""Streams of one attempt: what its module or command is told of them, and their end with it."""

from __future__ import annotations

import json
from pathlib import Path

from diel.context import Context
from diel.errors import StreamError
from diel.states import FailureClass
from diel.worker.bundle import Failure, Job, Request


def stream_environment(job: Job, request: Request) -> dict[str, str]:
    """What `diel stream` reads.

    DIEL_STREAMS has the task's ends in a JSON object by the stream's name. DIEL_RANKED is set where what a
    launcher says of ranks is said of the task's own, and not of its worker's.
    """
    member = {"member": f"{job.stage}/{request.index}", "attempt": request.attempt}
    ends = {name: {**end, **member} for name, end in (request.streams or {}).items()}
    return {"DIEL_STREAMS": json.dumps(ends), "DIEL_RANKED": "1" if job.launcher else ""}


def close_streams(context: Context, *, good: bool) -> None:
    """Flushes what a function put, and lets go of what it read.

    Raises Failure (class node) where an item of a function that ended well could not be put.
    """
    from diel.streams.client import connect  # only here: most tasks have no streams

    try:
        connect(Path(context.run_dir)).leave(context.member, context.attempt)
    except StreamError as error:
        if good:
            raise Failure(FailureClass.NODE, f"its streams could not be closed: {error}") from error
