"""What a task of a gang waits for: another task of it, or room for all of them."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice

from diel.explain.wait import SHOWN, waits_of_task
from diel.graph import Gang, gangs
from diel.results import RunReader
from diel.states import TaskState

LOOKED_AT = 1000
"""The most tasks of a stage to look at: a gang can have a million."""


def gang_of(run: RunReader, stage: str) -> Gang | None:
    """The gang of a stage; None if it runs alone."""
    return next((gang for gang in _gangs(run) if stage in gang.stages), None)


@lru_cache(maxsize=1)
def _gangs(run: RunReader) -> tuple[Gang, ...]:
    """Found once for all its stages."""
    return gangs(run.graph)


def partners_awaited(run: RunReader, stage: str, index: int) -> list[str]:
    """Tasks that must run at the same time as this one and are themselves still waiting."""
    gang, own = gang_of(run, stage), run.stages[stage]
    if gang is None or not own.known:
        return []
    coordinates = own.domain.coordinates(index)
    place = {axis: coordinates[axis] for axis in gang.axes}
    found: list[str] = []
    for name in gang.stages:
        other, in_waves = run.stages[name], name in gang.in_waves
        if not other.known:
            found.append(f"waits for '{name}', which runs at the same time, and whose axes are not known yet")
            continue
        states = {i: other.history.state(i) for i in islice(other.domain.matching(place), LOOKED_AT)}
        if in_waves and {TaskState.QUEUED, TaskState.RUNNING} & set(states.values()):
            continue  # with one of its tasks there, the others may come later
        idle = [i for i, state in states.items() if state in (TaskState.WAITING, TaskState.READY)]
        known = ((i, waits_of_task(run, name, i)) for i in idle if (name, i) != (stage, index))
        held = (
            f"{other.task(i)}, which runs at the same time and waits for {waits[0]}"
            for i, waits in known
            if waits
        )
        found += [f"waits for {text}" for text in islice(held, 1 if in_waves else SHOWN)]
    return found[:SHOWN]


def room_awaited(run: RunReader, stage: str) -> str:
    """What a ready task waits for, if not for a block."""
    gang = gang_of(run, stage)
    if gang is None:
        return "waits for a free worker"
    others = ", ".join(f"'{name}'" for name in gang.stages if name != stage)
    return f"runs at the same time as {others}, and waits until there is room for all of them"
