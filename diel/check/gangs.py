"""Gangs that a site has no room for: their tasks would wait for each other for ever."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from diel.check.workflow import Checked
from diel.errors import Problem
from diel.graph import Gang, Key, gangs
from diel.site import Site, cores_of


def check_gang_room(checked: Checked, site: Site, placed: Mapping[str, tuple[str, int]]) -> list[Problem]:
    """What could never run. `placed` gives the pool and the cores of a task by stage."""
    problems = []
    for gang in gangs(checked.graph):
        counts = {name: _at_once(checked, gang, name) for name in gang.stages}
        for pool, room in _pools(site).items():
            here = [n for n in gang.stages if not site.scheduled or placed[n][0] == pool]
            needed = {name: (counts[name] or 1) * placed[name][1] for name in here}
            if sum(needed.values()) <= room:
                continue
            where = f"pool '{pool}' of site '{site.name}'" if site.scheduled else "this machine"
            told = ", ".join(f"'{name}' {_tasks(counts[name])} of {placed[name][1]}" for name in here)
            problems.append(
                checked.document.problem(
                    _key(checked, gang),
                    f"these stages run at the same time and need {sum(needed.values())} cores ({told}), "
                    f"but {where} has {room}",
                    "ask for fewer cores or tasks, or choose another site with --site",
                )
            )
            break
    return problems


def _at_once(checked: Checked, gang: Gang, name: str) -> int | None:
    """How many tasks of a stage must be there at the same time; None where only the run will tell."""
    if name in gang.in_waves:
        return 1
    own = [checked.counts[axis] for axis in checked.workflow.stages[name].over if axis not in gang.axes]
    return None if None in own else prod(count or 0 for count in own)


def _tasks(count: int | None) -> str:
    return "tasks" if count is None else f"{count} task{'' if count == 1 else 's'}"


def _key(checked: Checked, gang: Gang) -> Key:
    """Where the file joins them."""
    for name in reversed(gang.stages):
        if checked.workflow.stages[name].beside:
            return ("stages", name, "beside")
        for edge in checked.graph.into(name):
            if edge.stream:
                return edge.key
    return ("stages", gang.stages[-1])


def _pools(site: Site) -> dict[str, int]:
    """Cores that can be had at the same time, by pool; this machine's are one pool."""
    if site.scheduled:
        return {name: pool.blocks * pool.block_nodes * cores_of(pool) for name, pool in site.pools.items()}
    return {"": sum(pool.nodes * cores_of(pool) for pool in site.pools.values())}
