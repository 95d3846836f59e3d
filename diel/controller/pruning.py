"""Trials that are pruned: hearing what running tasks report, and not running again what was pruned before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from diel.axes.adaptive import Standing
from diel.errors import DielError
from diel.expressions import ExpressionError
from diel.project.cache import Cache, pruned_key
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link
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
    recipes: Mapping[str, Recipe],
    ledger: Ledger,
    stage: StageRun,
    index: int,
    metric: str,
    reported: Mapping[int, float],
) -> None:
    """Keeps what a task reported of a metric before it was pruned, for later runs."""
    try:
        key = recipes[stage.name].resolve(index).key
    except (DielError, ExpressionError):  # a file that it reads is gone: nobody will ask for it
        return
    ledger.append(
        {
            "event": "pruned",
            "stage": stage.name,
            "index": index,
            "key": pruned_key(key, metric),
            "metric": metric,
            "reported": [[step, value] for step, value in reported.items()],
        }
    )


def leave_out(
    out_of: Mapping[str, Iterable[Link]], ledger: Ledger, stage: StageRun, indices: Iterable[int]
) -> None:
    """Leaves out tasks of a pruned trial that had ended: when they did must decide nothing."""
    for index in indices:
        for link in out_of[stage.name]:
            link.leave_out(index)
        take_back(ledger, stage, index)


def take_back(ledger: Ledger, stage: StageRun, index: int) -> None:
    """A task of a pruned trial has no result, though it ended before it was stopped."""
    if stage.history.state(index).good:
        attempt = stage.history.result_attempt(index)
        ledger.append({"event": "gone", "stage": stage.name, "tasks": [[index, attempt]]})
    stage.omitted.add(index)
    ledger.skip(stage, [[index, index]], "axis", "")


def recall(
    cache: Cache, deciders: Mapping[str, Decider], stage: StageRun, index: int, family: str, key: str
) -> bool:
    """Tells searches what a task reported before it was pruned in an earlier run; whether it is again."""
    pruning = [axis for axis in stage.adaptive if axis.axis.prunes]
    for axis in pruning:
        deciders[axis.label].recall(stage, index, partial(cache.reported, family, key))
    return bool(pruning) and stage.standing(index) is Standing.CLOSED
