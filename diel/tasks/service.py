"""An edge from a service to those that ask it, while both run.

It holds nothing back for what the service does: only for what the service reads. Whether it is up is
`serving`'s to say, for a service comes up once a consumer has all else that it needs.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from diel.base.states import TaskState
from diel.store.artifacts.identity import FirstLook
from diel.tasks.link import Link, Verdict
from diel.tasks.points.domain import Group
from diel.tasks.selection import ChoosingLink
from diel.tasks.stage_run import StageRun
from diel.worker.attempt.bundle import Request
from diel.worker.attempt.service import Answers
from diel.workflow.graph import StageGraph
from diel.workflow.graph.judge import late_stages
from diel.workflow.graph.stage_graph import reach

Held = tuple[tuple[FirstLook, ...], Mapping[str, Any]]
"""Files of the user, and what tasks made, by name."""


@dataclass
class ServiceLink(Link):
    """A service and one of its consumers. Its groups are the points of the service; replicas are members."""

    way = "asks the service"
    alongside = True
    is_counted = False  # a replica that ends does not affect others

    inputs: list[Link] = field(default_factory=list)
    """The edges that the service itself reads."""
    request_of: Callable[[int], Request] | None = None
    """The request of a replica's task, with all files that it reads where they lie."""
    _requests: dict[Group, Request] = field(default_factory=dict)
    _ended: dict[Group, int] = field(default_factory=dict)

    def woken_by(self, index: int) -> Iterable[int]:
        """Return the tasks that cannot continue if a replica ended badly."""
        group = self.group_of_upstream(index)
        return () if group is None or self.up.history.state(index).good else self.dependents(group)

    def verdict(self, group: Group) -> Verdict:
        """Return READY once a replica can start or has started, or if the service is not needed."""
        return Verdict.READY if self.is_spared(group) else super().verdict(group)

    def is_spared(self, group: Group) -> bool:
        """Return whether the service will not come, and its consumers continue without it."""
        return self.edge.optional and super().verdict(group) in (Verdict.FAILED, Verdict.OMITTED)

    def _weigh(self, group: Group) -> Verdict:
        verdicts = [self._verdict_of_replica(index) for index in self.members(group)]
        good = (verdict for verdict in (Verdict.READY, Verdict.WAITING) if verdict in verdicts)
        return next(good, verdicts[0] if verdicts else Verdict.FAILED)

    def _verdict_of_replica(self, index: int) -> Verdict:
        state = self.up.history.state(index)
        if state.ended or state in (TaskState.QUEUED, TaskState.RUNNING):
            return self.verdict_of(index) if state.ended else Verdict.READY
        verdicts = (link.verdict(link.group_of_downstream(index)) for link in self.inputs)
        return next((verdict for verdict in verdicts if verdict is not Verdict.READY), Verdict.READY)

    @property
    def is_renewed(self) -> bool:
        """Whether the service takes newer inputs while it runs."""
        return self.up.spec.service is not None and self.up.spec.service.reload is not None

    def key(self, group: Group) -> str:
        """Return the cache key of the service at a point: a consumer's result depends on it."""
        return self._request(group).key

    def _request(self, group: Group) -> Request:
        if group not in self._requests:
            assert self.request_of is not None
            self._requests[group] = self.request_of(next(iter(self.members(group))))
        return self._requests[group]

    def held(self, group: Group) -> Held:
        """Return what the service at a point reads, and must stay for who asks it; not what it takes anew."""
        request, newer = self._request(group), {link.edge.name for link in self.inputs if link.edge.renewed}
        reads = {name: value for name, value in (request.reads or {}).items() if name not in newer}
        return request.watched, {f"{name} of the service {self.up.name}": v for name, v in reads.items()}

    def forget_keys(self) -> None:
        self._requests.clear()

    def replicas(self, group: Group) -> range:
        """Return the replicas of a point, side by side."""
        first = next(iter(self.members(group)))
        service = self.up.spec.service
        assert service is not None
        return range(first, first + service.replicas)

    def note_end(self, index: int) -> Group:
        """Count a consumer that ended; return the point whose service it asked."""
        group = self.group_of_downstream(index)
        self._ended[group] = self._ended.get(group, 0) + 1
        return group

    def is_done(self, group: Group) -> bool:
        """Return whether no further consumer will ask the service at a point."""
        if self.down.void:
            return True
        if not self.down.known:
            return False
        fixed = dict(zip(self.edge.matched, group, strict=True))
        return self._ended.get(group, 0) >= self.down.domain.count(fixed)


class AskedServices:
    """The services that the tasks of one stage ask while they run."""

    def __init__(self, into: Iterable[Link]) -> None:
        links = (link for link in into if isinstance(link, ServiceLink))
        self._links = [link for link in links if not link.edge.optional]

    def replicas(self, index: int) -> dict[str, range]:
        """Return the task indices of the replicas that a task asks, by service."""
        return {link.up.name: link.replicas(link.group_of_downstream(index)) for link in self._links}

    def keys(self, index: int) -> dict[str, str]:
        """Return a service's part of a task's key: its answers depend on its inputs."""
        return {f"service {name}": key for name, key in self._models(index, renewed=False).items()}

    def held(self, index: int) -> Held:
        """Return the inputs of a task's services, which must not change while it asks them."""
        held = [link.held(link.group_of_downstream(index)) for link in self._links]
        return tuple(file for watched, _ in held for file in watched), {
            name: value for _, reads in held for name, value in reads.items()
        }

    def answers(self, index: int, key: str, part: str) -> Answers | None:
        """Return the function of a task's key, if services take newer inputs while they run."""
        models = self._models(index, renewed=True)
        return Answers(key, part, models, self.replicas(index)) if models else None

    def _models(self, index: int, *, renewed: bool) -> dict[str, str]:
        links = (link for link in self._links if link.is_renewed == renewed)
        return {link.up.name: link.key(link.group_of_downstream(index)) for link in links}


def tie(links: Collection[Link], request: Callable[[str, int], Request]) -> None:
    """Give services their own inputs and keys: `request` makes the request of a stage's task."""
    inputs: dict[str, list[Link]] = {}
    for link in links:
        inputs.setdefault(link.down.name, []).append(link)
    for link in links:
        if isinstance(link, ServiceLink):
            link.inputs = inputs.get(link.up.name, [])
            link.request_of = partial(request, link.up.name)


HANDED_OUT = (TaskState.QUEUED, TaskState.RUNNING)


@dataclass(eq=False)
class Turn:
    """One loop at an edge that brings a service what the latest round made: whose turn it is at the service.

    Consumers come in the order of their rounds. They are answered by what the service reads of the round
    before theirs, or of theirs where they come after that, in a resumed run too: it gets nothing newer until
    all consumers before them have ended.
    """

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
