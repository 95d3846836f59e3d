"""What a task of a gang waits for: one of those that run at the same time, or room for all of them."""

from __future__ import annotations

from itertools import islice

from diel.explain.wait import SHOWN, waits_of_task
from diel.graph import Gang, gangs
from diel.results.view import RunView
from diel.states import TaskState

LOOKED_AT = 1000
"""Tasks of a stage that are looked at: a gang may have a million."""


def gang_of(view: RunView, stage: str) -> Gang | None:
    """The gang of a stage; None where it runs by itself."""
    return next((gang for gang in gangs(view.run.graph) if stage in gang.stages), None)


def partners_awaited(view: RunView, stage: str, index: int) -> list[str]:
    """The tasks that must run at the same time as this one, and still wait for something themselves."""
    gang, domain = gang_of(view, stage), view.stages[stage].domain
    if gang is None or domain is None:
        return []
    coordinates = domain.coordinates(index)
    place = {axis: coordinates[axis] for axis in gang.axes}
    found: list[str] = []
    for name in gang.stages:
        other = view.stages[name]
        if other.domain is None:
            found.append(f"waits for '{name}', which runs at the same time, and whose axes are not known yet")
            continue
        if name in gang.in_waves and any(
            other.history.state(i) in (TaskState.QUEUED, TaskState.RUNNING)
            for i in islice(other.domain.matching(place), LOOKED_AT)
        ):
            continue  # with one of its tasks there, the others may come later
        for i in islice(other.domain.matching(place), LOOKED_AT):
            idle = other.history.state(i) in (TaskState.WAITING, TaskState.READY)
            waits = waits_of_task(view, name, i) if idle and (name, i) != (stage, index) else []
            if waits:
                found.append(f"waits for {name}/{i}, which runs at the same time and waits for {waits[0]}")
            if waits and name in gang.in_waves:
                break
    return found[:SHOWN]


def room_awaited(view: RunView, stage: str) -> str:
    """What is said of a task that is ready; empty where its stage is in no gang."""
    gang = gang_of(view, stage)
    if gang is None:
        return ""
    others = ", ".join(f"'{name}'" for name in gang.stages if name != stage)
    return f"runs at the same time as {others}, and waits until there is room for all of them"
