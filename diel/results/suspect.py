"""Suspect results: answers that audits speak against, and all that read them, directly or through others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from diel.axes.domain import Group
from diel.results.reader import RunReader
from diel.tasks.link import Link
from diel.tasks.stage_run import StageRun


def suspects(run: RunReader) -> dict[str, set[int]]:
    """Return by stage the tasks whose result is suspect or read a suspect one; nothing without audits."""
    return suspect_tasks(run) if run.history.has_suspects() else {}


def suspect_tasks(run: RunReader) -> dict[str, set[int]]:
    """Return by stage the tasks whose result is suspect, or read a suspect one."""
    histories = {name: stage.history for name, stage in run.stages.items()}
    return reached(run, {name: [*history.suspect(), *history.stays()] for name, history in histories.items()})


def suspect_inputs(
    run: RunReader, stage: str, index: int, suspect: Mapping[str, Collection[int]]
) -> dict[str, list[int]]:
    """Return the suspect tasks whose results a task reads, by stage."""
    read: dict[str, set[int]] = {}
    for link in run.into(stage):
        if not link.feeds:
            continue
        members = link.members(link.group_of_downstream(index)) if link.up.known else ()
        read.setdefault(link.up.name, set()).update(i for i in members if i in suspect[link.up.name])
    return {name: sorted(tasks) for name, tasks in read.items() if tasks}


def reached(
    run: RunReader,
    tasks: Mapping[str, Iterable[int]],
    without: Collection[str] = (),
    *,
    ordered: bool = False,
) -> dict[str, set[int]]:
    """Return these tasks, and those with a result that read them, directly or through others, by stage.

    Tasks of the stages in `without` are left out, and what only these lead to. `ordered`: also those that run
    after others which may be left out.
    """
    tasks_by_stage = {name: set(tasks.get(name, ())) for name in run.stages}

    def leads(link: Link) -> bool:
        return link.feeds or (ordered and link.edge.output is None and run.graph.decides(link.edge))

    links = {name: [*filter(leads, run.into(name))] for name in run.stages if name not in without}
    turns = any(link.edge.follows for into in links.values() for link in into)
    more = any(tasks_by_stage.values())
    while more:
        reading = _ReaderSearch(tasks_by_stage)
        before = sum(map(len, tasks_by_stage.values()))
        for name in run.graph.order:
            tasks_by_stage[name].update(reading.tasks(run.stages[name], links.get(name, ())))
        more = turns and sum(map(len, tasks_by_stage.values())) > before  # a round may read the one before it
    return tasks_by_stage


class _ReaderSearch:
    """Which tasks read any of these. Told once for each group: a million tasks may read the same one."""

    def __init__(self, tasks: Mapping[str, Collection[int]]) -> None:
        self._tasks = tasks
        self._verdicts: dict[tuple[int, Group], bool] = {}

    def tasks(self, stage: StageRun, links: Collection[Link]) -> list[int]:
        """Return the tasks of a stage with a result that read one along these links."""
        used = [link for link in links if link.up.known and self._tasks[link.up.name]]
        if not used:
            return []
        return [i for i in stage.history.good() if any(self._is_read(link, i) for link in used)]

    def _is_read(self, link: Link, index: int) -> bool:
        group = link.group_of_downstream(index)
        place = (id(link), group)
        if place not in self._verdicts:
            tasks = self._tasks[link.up.name]
            self._verdicts[place] = any(member in tasks for member in link.members(group))
        return self._verdicts[place]
