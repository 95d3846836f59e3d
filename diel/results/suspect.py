"""Suspect results: answers that audits speak against, and all that read them, directly or through others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from diel.axes.domain import Group
from diel.results.reader import RunReader
from diel.tasks.link import Link
from diel.tasks.stage_run import StageRun


def suspects(run: RunReader) -> dict[str, set[int]]:
    """By stage, the tasks whose result is suspect, or read one that is; nothing where no audit found any."""
    return suspect_tasks(run) if run.history.has_suspects() else {}


def suspect_tasks(run: RunReader) -> dict[str, set[int]]:
    """By stage, the tasks whose result is suspect, or read one that is."""
    histories = {name: stage.history for name, stage in run.stages.items()}
    return reached(run, {name: [*one.suspect(), *one.stays()] for name, one in histories.items()})


def suspect_inputs(
    run: RunReader, stage: str, index: int, found: Mapping[str, Collection[int]]
) -> dict[str, list[int]]:
    """Those of the suspect tasks whose results a task reads, by stage."""
    read: dict[str, set[int]] = {}
    for link in run.into(stage):
        if not link.feeds:
            continue
        members = link.members(link.group_of_downstream(index)) if link.up.known else ()
        read.setdefault(link.up.name, set()).update(i for i in members if i in found[link.up.name])
    return {name: sorted(tasks) for name, tasks in read.items() if tasks}


def reached(
    run: RunReader, tasks: Mapping[str, Iterable[int]], without: Collection[str] = ()
) -> dict[str, set[int]]:
    """These tasks and those with a result that read them, directly or through others, by stage; `without` the
    tasks of some stages, and what only these lead to.
    """
    found = {name: set(tasks.get(name, ())) for name in run.stages}
    links = {
        name: [link for link in run.into(name) if link.feeds] for name in run.stages if name not in without
    }
    turns = any(link.edge.follows for into in links.values() for link in into)
    more = any(found.values())
    while more:
        reading = _Reading(found)
        before = sum(map(len, found.values()))
        for name in run.graph.order:
            found[name].update(reading.tasks(run.stages[name], links.get(name, ())))
        more = turns and sum(map(len, found.values())) > before  # a round may read the one before it
    return found


class _Reading:
    """Which tasks read any of these. Told once for each group: a million tasks may read the same one."""

    def __init__(self, found: Mapping[str, Collection[int]]) -> None:
        self._found = found
        self._known: dict[tuple[int, Group], bool] = {}

    def tasks(self, stage: StageRun, links: Collection[Link]) -> list[int]:
        """The tasks of a stage with a result that read one along these links."""
        used = [link for link in links if link.up.known and self._found[link.up.name]]
        if not used:
            return []
        return [i for i in stage.history.good() if any(self._is_read(link, i) for link in used)]

    def _is_read(self, link: Link, index: int) -> bool:
        group = link.group_of_downstream(index)
        place = (id(link), group)
        if place not in self._known:
            found = self._found[link.up.name]
            self._known[place] = any(member in found for member in link.members(group))
        return self._known[place]
