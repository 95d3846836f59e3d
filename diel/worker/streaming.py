"""Streams of one attempt: what its module or command is told of them, and their end with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diel.context import Context
from diel.errors import StreamError
from diel.states import FailureClass
from diel.worker.bundle import Failure, Request

Ends = Mapping[str, Mapping[str, Any]]


def stream_environment(stage: str, request: Request, environ: Mapping[str, str]) -> dict[str, str]:
    """DIEL_STREAMS, as `diel stream` reads it: one JSON object by the stream's name."""
    member = {"member": f"{stage}/{request.index}", "attempt": request.attempt}
    ends = {name: {**end, **member} for name, end in (request.streams or {}).items()}
    return {"DIEL_STREAMS": json.dumps(ends)}


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
