"""Suspect results: answers that audits speak against, and all that read them, directly or through others."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from diel.axes.domain import Group
from diel.results.reader import RunReader
from diel.tasks.link import Link


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
    run: RunReader, tasks: Mapping[str, Iterable[int]], without: Collection[str] = ()
) -> dict[str, set[int]]:
    """Return these tasks, and those with a result that rest on them, directly or through others, by stage.

    Tasks of the stages in `without` are left out, and what only these lead to.
    """
    tasks_by_stage = {name: set(tasks.get(name, ())) for name in run.stages}
    ordered = [link for link in run.links if link.edge.output is None and link.edge.hyperparameter is None]
    leads = [link for link in run.links if link.feeds]
    leads += [link for link in ordered if run.graph.decides(link.edge)]
    links = {name: [link for link in leads if link.down.name == name] for name in {*run.stages} - {*without}}
    turns = any(link.edge.follows for link in leads if link.down.name in links)
    more = any(tasks_by_stage.values())
    while more:
        before = sum(map(len, tasks_by_stage.values()))
        for name in run.graph.order:
            is_good = run.stages[name].history.is_good
            for link in links.get(name, ()):
                read = tasks_reading(link, tasks_by_stage[link.up.name])
                tasks_by_stage[name].update(filter(is_good, read))
        more = turns and sum(map(len, tasks_by_stage.values())) > before  # a round may read the one before it
    return tasks_by_stage


def decided_axes(run: RunReader, stage: str) -> list[str]:
    """Return the axes whose points rest on results of a stage, and are known."""
    axes, before = run.workflow.axes.items(), run.graph.before
    decided = [axis.label for axis in run.stages[stage].adaptive if stage in before(axis.judge.stages)]
    return decided + [label for label, axis in axes if axis.maker == stage and run.points(label)]


def tasks_reading(link: Link, tasks: Collection[int]) -> Iterator[int]:
    """Yield the tasks that read any of these along a link, once for each group, which millions may read."""
    verdicts: dict[Group, bool] = {}
    for index in range(link.down.size) if link.up.known and tasks else ():
        group = link.group_of_downstream(index)
        if group not in verdicts:
            verdicts[group] = any(member in tasks for member in link.members(group))
        if verdicts[group]:
            yield index
