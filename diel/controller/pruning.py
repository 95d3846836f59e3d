"""Trials that are pruned: hearing what running tasks report, and not running again what was pruned before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from diel.errors import DielError
from diel.expressions import ExpressionError
from diel.project.cache import Cache, pruned_key
from diel.tasks.ledger import Ledger
from diel.tasks.recipe import Recipe
from diel.tasks.stage_run import StageRun

if TYPE_CHECKING:
    from diel.search.decider import Decider


def listen(deciders: Mapping[str, Decider]) -> float:
    """Lets searches read what running tasks report, where that is due.

    Returns when it is again, in time.monotonic seconds.
    """
    return min((decider.listen() for decider in deciders.values()), default=math.inf)


def keep_pruned(
    recipes: Mapping[str, Recipe], ledger: Ledger, stage: StageRun, index: int, reported: Mapping[int, float]
) -> None:
    """Keeps what a task reported before it was pruned, for later runs."""
    try:
        key = recipes[stage.name].resolve(index).key
    except (DielError, ExpressionError):  # a file that it reads is gone: nobody will ask for it
        return
    ledger.append(
        {
            "event": "pruned",
            "stage": stage.name,
            "index": index,
            "key": pruned_key(key),
            "reported": [[step, value] for step, value in reported.items()],
        }
    )


def recall(
    cache: Cache, deciders: Mapping[str, Decider], stage: StageRun, index: int, family: str, key: str
) -> bool:
    """Tells searches what a task reported in an earlier run before it was pruned there; whether anything."""
    reported = cache.reported(family, key)
    for axis in stage.adaptive if reported else ():
        if axis.judged:
            deciders[axis.label].recall(stage, index, reported)
    return bool(reported)
