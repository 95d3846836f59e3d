"""Whether the controller of this machine's workers is there: a pipe that their server closes when it is not.

A worker in a block has none: it goes on without a controller.
"""

from __future__ import annotations

from diel.attempt.line import is_readable

_pipe: int | None = None


def hold(pipe: int) -> None:
    """Takes the pipe as this worker's."""
    global _pipe
    _pipe = pipe


def is_cut() -> bool:
    """Whether the controller is gone."""
    return _pipe is not None and is_readable(_pipe)
