"""A stream between two stages while they run: its channels, and which tasks write and read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from diel.base.states import TaskState
from diel.tasks.link import Link, Verdict
from diel.tasks.points.domain import Group
from diel.tasks.stage_run import StageRun
from diel.workflow.graph import StageGraph, gangs

StreamEnds = Callable[[int], dict[str, dict[str, str]]]
"""The streams of a task, by name: `role` (put or get), `channel`, `group`."""


@dataclass
class StreamLink(Link):
    """An edge along which items move while both its tasks run: no task waits for the other's end."""

    way = "reads the stream"
    alongside = True

    def verdict(self, group: Group) -> Verdict:
        """Let no task wait: both run together. Fail once too many producers are lost."""
        verdict = super().verdict(group)
        if verdict is not Verdict.WAITING or not self.up.known:
            return verdict
        lacks = self.edge.min_success == 1 and self._never_made(group)
        return Verdict.FAILED if lacks else Verdict.READY

    def is_cut(self, index: int) -> bool:
        """Return whether a producer ended without a result, so perhaps before its last item."""
        history = self.up.history
        ended = history.state(index).ended and not history.state(index).good
        return ended and (index not in self.up.omitted or index in history.attempts)

    def broken_by(self, group: Group, index: int) -> dict[str, list[str]]:
        """Return the groups of readers that cannot bear the loss of one producer."""
        is_too_much = self.verdict(group) is Verdict.FAILED or index in self.up.omitted
        return self.readers(group) if is_too_much else {}

    def channel(self, group: Group) -> str:
        """Return the channel of a group of producers: one for each point of the matched axes."""
        return _at(f"{self.edge.upstream}.{self.edge.output}", group)

    def readers(self, group: Group) -> dict[str, list[str]]:
        """Return the groups of readers of a channel, with their members."""
        readers: dict[str, list[str]] = {}
        for index in self.dependents(group):
            readers.setdefault(self.reading_group(index), []).extend(members_of(self.down, index))
        return readers

    def reading_group(self, index: int) -> str:
        """Return the reading group of a downstream task: the task alone, or all that share the items."""
        name = f"{self.down.name}.{self.edge.name}"
        return _at(name, self.group_of_downstream(index)) if self.edge.share else f"{name}/{index}"


def is_cut_by_user(into: Iterable[Link], index: int) -> bool:
    """Return whether a task lacks items of streams only because a user cancelled their producers."""
    lost: set[TaskState] = set()
    for link in into:
        if isinstance(link, StreamLink):
            makers = link.members(link.group_of_downstream(index))
            lost |= {link.up.history.state(maker) for maker in makers if link.is_cut(maker)}
    return lost == {TaskState.CANCELLED}


def _at(name: str, group: Group) -> str:
    return f"{name}/{'-'.join(map(str, group))}" if group else name


def members_of(stage: StageRun, index: int) -> list[str]:
    """Return the members of a task, as in `Context.member`: each of its MPI ranks, or the task."""
    task = f"{stage.name}/{index}"
    resources = stage.resources_of(index)
    if resources.processes == 1:
        return [task]
    return [f"{task}.{rank}" for rank in range(resources.processes)]


def ends_of(
    graph: StageGraph, into: Mapping[str, list[Link]], out_of: Mapping[str, list[Link]]
) -> dict[str, StreamEnds]:
    """Return the streams of each stage that runs with others; none for `beside` alone."""
    together = [name for gang in gangs(graph) for name in gang.stages]
    gets = {name: [link for link in into[name] if isinstance(link, StreamLink)] for name in together}
    puts = {name: [link for link in out_of[name] if isinstance(link, StreamLink)] for name in together}
    return {name: partial(_ends, gets[name], puts[name]) for name in together}


def _ends(gets: list[StreamLink], puts: list[StreamLink], index: int) -> dict[str, dict[str, str]]:
    ends: dict[str, dict[str, str]] = {}
    for link in puts:  # several may read one output
        group = link.group_of_upstream(index)
        if group is not None:
            ends[str(link.edge.output)] = {
                "role": "put",
                "channel": link.channel(group),
                **_ranks(link.up, index),
            }
    for link in gets:
        channel, group_name = link.channel(link.group_of_downstream(index)), link.reading_group(index)
        end = {"role": "get", "channel": channel, "group": group_name, **_ranks(link.down, index)}
        ends[str(link.edge.name)] = end
    return ends


def _ranks(stage: StageRun, index: int) -> dict[str, str]:
    """Return the variables by which `diel stream` tells the ranks of a command apart."""
    count = stage.resources_of(index).processes
    return {"ranks": str(count)} if count > 1 else {}
