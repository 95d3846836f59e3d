"""Gangs that a site has no room for: their tasks would wait for each other forever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import ceil, prod

from diel.check.demand import shared_room_flaws
from diel.check.workflow import Checked
from diel.errors import Problem, counted
from diel.graph import Gang, Key, gangs
from diel.site import Shape, Site, rooms


def check_gang_room(
    checked: Checked, site: Site, placed: Mapping[str, tuple[str, int]], shapes: Mapping[str, Shape]
) -> list[Problem]:
    """Gangs that could never run. `placed` gives a task's pool and cores by stage, `shapes` its shape."""
    problems: list[Problem] = []
    for gang in gangs(checked.graph):
        problems += shared_room_flaws(checked, site, gang.stages)
        counts = {name: _at_once(checked, gang, name) for name in gang.stages}
        for pool, room in rooms(site).items():
            here = [n for n in gang.stages if not site.scheduled or placed[n][0] == pool]
            needed = {name: (counts[name] or 1) * placed[name][1] for name in here}
            if sum(needed.values()) <= room:
                continue
            where = f"pool '{pool}' of site '{site.name}'" if site.scheduled else "this machine"
            each = ", ".join(f"'{name}' {_tasks(counts[name])} of {placed[name][1]}" for name in here)
            message = f"these stages run at the same time and need {sum(needed.values())} cores ({each})"
            hint = "ask for fewer cores or tasks, or choose another site with --site"
            key = _key(checked, gang)
            problems.append(checked.document.problem(key, f"{message}, but {where} has {room}", hint))
            break
        else:
            if site.scheduled:
                problems += _too_many_blocks(checked, site, gang, counts, shapes)
    return problems


def _too_many_blocks(
    checked: Checked, site: Site, gang: Gang, counts: Mapping[str, int | None], shapes: Mapping[str, Shape]
) -> Iterator[Problem]:
    """Gangs that need too many blocks: each shape has its own, and all must run at the same time."""
    tasks: Counter[Shape] = Counter()
    for name in gang.stages:
        tasks[shapes[name]] += counts[name] or 1
    for pool in sorted({shape.pool for shape in tasks}):
        there = site.pools[pool]
        here = [shape for shape in tasks if shape.pool == pool]
        needed = sum(ceil(tasks[shape] / shape.slots(there)) for shape in here)
        if needed > there.blocks:
            labels = ", ".join(f"{tasks[shape]} of {shape.label}" for shape in here)
            message = f"these stages run at the same time and need {needed} blocks (tasks: {labels}), but "
            message += f"pool '{pool}' of site '{site.name}' may have {there.blocks}"
            hint = "give them the same resources, put one into another pool, or raise the pool's `blocks`"
            yield checked.document.problem(_key(checked, gang), message, hint)


def _at_once(checked: Checked, gang: Gang, name: str) -> int | None:
    """How many tasks of a stage must run at the same time; None if only the run will show it."""
    if name in gang.in_waves:
        return 1
    own = [checked.counts[axis] for axis in checked.workflow.stages[name].over if axis not in gang.axes]
    return None if None in own else prod(count or 0 for count in own)


def _tasks(count: int | None) -> str:
    return "tasks" if count is None else counted(count, "task")


def _key(checked: Checked, gang: Gang) -> Key:
    for name in reversed(gang.stages):
        if checked.workflow.stages[name].beside:
            return ("stages", name, "beside")
        for edge in checked.graph.into(name):
            if edge.stream:
                return edge.key
    return ("stages", gang.stages[-1])
