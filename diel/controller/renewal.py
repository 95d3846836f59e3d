"""Going on where Parsl's interchange was lost: this process becomes the run's next controller, a few times.

The blocks and what runs in them are taken over as from any earlier controller (docs/decisions/026).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from diel.blocks.backend import EngineLost
from diel.controller.controller import Controller
from diel.controller.start import take_over
from diel.errors import DielError

TIMES = 5

Outcome = TypeVar("Outcome")


def drive_on(controller: Controller, drive: Callable[[Controller], Outcome]) -> Outcome:
    """What `drive` returns of a controller, or of one after it. Raises DielError after some times."""
    for _ in range(TIMES):
        try:
            return drive(controller)
        except EngineLost as error:
            controller = take_over(controller.paths)
            controller.note(f"{error}; it is started anew")
    try:
        return drive(controller)
    except EngineLost as error:
        raise DielError(f"{error}, `diel resume {controller.paths.run_id}` takes them over") from error
