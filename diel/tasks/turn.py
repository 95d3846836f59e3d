"""Whose turn it is at a service that takes newer inputs: consumers come in the order of their rounds.

They are answered by what the service reads of the round before theirs, or of theirs where they come after
that, in a resumed run too: it gets nothing newer until all consumers before them have ended.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from diel.axes.domain import Group
from diel.graph import StageGraph
from diel.graph.judge import late_stages
from diel.graph.stage_graph import reach
from diel.states import TaskState
from diel.tasks.link import Link
from diel.tasks.selection import ChoosingLink
from diel.tasks.stage_run import StageRun

HANDED_OUT = (TaskState.QUEUED, TaskState.RUNNING)


@dataclass(eq=False)
class Turn:
    """One loop at an edge that brings a service what the latest round made."""

    link: ChoosingLink
    label: str
    consumers: dict[str, StageRun]
    """Those that run over the loop, or wait for its end."""
    late: set[str]
    """Stages that wait for the end of the loop: what its last round made answers them."""
    after: frozenset[str]
    """Stages that come after what the service reads in the same round, which answers them."""
    given: dict[Group, int] = field(default_factory=dict)
    """How many rounds the service could read when it was last looked at, by place; -1 if nobody has."""
    adopted: dict[Group, list[tuple[StageRun, int]]] = field(default_factory=dict)
    """Consumers that run since an earlier controller: what they ask must not change."""
    _next: Counter[Group] = field(default_factory=Counter)
    _ended: Counter[tuple[str, Group, int]] = field(default_factory=Counter)
    _come: Counter[Group] = field(default_factory=Counter)
    """How many rounds have ended of what the service reads, by place."""

    def place(self, stage: StageRun, index: int) -> tuple[Group, int]:
        """Return where the service of a consumer is, and how many rounds this may have read."""
        at, late = stage.domain.coordinates(index), stage.name in self.late
        number = self.link.axes[self.label].size if late else at[self.label] + (stage.name in self.after)
        return tuple(at[axis] for axis in self.link.edge.matched), number

    def tasks(self, stage: StageRun, group: Group, number: int) -> Iterable[int]:
        """Return a stage's tasks at a place, of those over the loop that may read so many rounds."""
        return stage.domain.matching(self._fixed(stage, group, number))

    def _fixed(self, stage: StageRun, group: Group, number: int) -> dict[str, int]:
        fixed = dict(zip(self.link.edge.matched, group, strict=True))
        if self.label in stage.spec.over and stage.name not in self.late:
            fixed[self.label] = number - (stage.name in self.after)
        return fixed

    def note(self, stage: StageRun, index: int) -> Group:
        """Note a consumer that has ended, or runs since an earlier controller; return where it asks."""
        group, number = self.place(stage, index)
        self.given.setdefault(group, -1)
        if stage.history.state(index).ended:
            self._ended[stage.name, group, number] += 1
        else:
            self.adopted.setdefault(group, []).append((stage, index))
        return group

    def now(self, group: Group) -> int:
        """Return how many rounds the service may read: as the first consumer that has not ended."""
        kept = [task for task in self.adopted.pop(group, ()) if task[0].history.state(task[1]) in HANDED_OUT]
        if kept:
            self.adopted[group] = kept
        while self._next[group] < self.link.axes[self.label].size and self._is_past(group, self._next[group]):
            self._next[group] += 1
        return max([self._next[group], *(self.place(*task)[1] for task in kept)])

    def _is_past(self, group: Group, number: int) -> bool:
        inside = [stage for name, stage in self.consumers.items() if name not in self.late]
        ended = ((stage, self._ended[stage.name, group, number]) for stage in inside)
        return all(
            stage.void or (stage.known and many >= stage.domain.count(self._fixed(stage, group, number)))
            for stage, many in ended
        )

    def has_come(self, stage: StageRun, index: int) -> bool:
        """Return whether a consumer may ask: what its service reads of the rounds before has ended, too."""
        (group, number), up = self.place(stage, index), self.link.up
        if not self.now(group) == number == self._next[group]:
            return False
        matched = dict(zip(self.link.edge.matched, group, strict=True))
        while up.known and self._come[group] < number:
            made = up.domain.matching({**matched, self.label: self._come[group]})
            if not all(up.history.state(other).ended for other in made):
                break
            self._come[group] += 1
        return up.void or self._come[group] >= number


def turns_of(graph: StageGraph, links: Iterable[Link]) -> list[Turn]:
    """Return the turns at the services of a run."""
    links = [*links]
    edges = (link for link in links if link.edge.renewed and isinstance(link, ChoosingLink))
    return [_turn(graph, links, link, *link.axes) for link in edges]


def _turn(graph: StageGraph, links: list[Link], link: ChoosingLink, label: str) -> Turn:
    late = late_stages(graph, label, link.up.name)
    asking = [other.down for other in links if other.edge.service and other.up is link.down]
    consumers = {stage.name: stage for stage in asking if label in stage.spec.over or stage.name in late}

    def step(name: str) -> list[str]:
        return [edge.downstream for edge in graph.out_of(name) if not (edge.follows or edge.renewed)]

    return Turn(link, label, consumers, late, frozenset(reach([link.up.name], step)[1:]))
