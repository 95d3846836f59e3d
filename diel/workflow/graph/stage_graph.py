"""The stage graph: one node for each stage, one edge for each use of another stage's result."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Any, NamedTuple

from diel.workflow.models import Choice, Hyperparameter, Workflow
from diel.workflow.models.model import Key

_SHORT = 1e-9
"""Seconds for a stage of unknown length, so that a chain of such stages still counts."""


class PublishedHyperparameter(NamedTuple):
    """A hyperparameter that is read with the value that another stage gave it."""

    name: str
    spec: Hyperparameter
    """Its type and bounds, which the value must fit."""


class Edge(NamedTuple):
    """A stage's use of another stage, with the axes along which data moves.

    With A the upstream axes and B the downstream ones: axes in both are matched, axes only in A
    and not picked by `at` are gathered, axes only in B are broadcast over.
    """

    key: Key
    upstream: str
    downstream: str
    output: str | None = None
    """The output that is read; None if it only sets the order."""
    name: str | None = None
    """The input's name; None for `after`, expressions, derived axes and hyperparameters."""
    axis: str | None = None
    """The derived axis that the edge makes known."""
    picked: Mapping[str, Any] = {}
    """Points that `at` names, by axis."""
    matched: tuple[str, ...] = ()
    gathered: tuple[str, ...] = ()
    """In the order of the axes in the file, whatever the order of the stage's `over`."""
    min_success: float = 1.0
    chosen: Mapping[str, Choice] = {}
    """The choices of points of searches and loops during the run, by axis."""
    initially: Any = None
    """The value for the first round; templates in it are not evaluated yet."""
    hyperparameter: str | None = None
    """The hyperparameter that is read instead of an output, as a search set it."""
    published: PublishedHyperparameter | None = None
    """The hyperparameter whose value the output is."""
    stream: bool = False
    """Whether the output is read while its task runs."""
    share: bool = False
    """Whether the downstream tasks share the items that they read."""
    service: bool = False
    """Whether the downstream tasks ask the upstream ones while these stay up."""
    optional: bool = False
    """Whether the downstream tasks go on without the upstream ones, where these fail."""
    renewed: bool = False
    """Whether the downstream tasks get newer rounds' outputs while they run."""
    begun: bool = False
    """Whether it has something to begin with, before the first round."""
    outer: bool = False
    """Whether gathered tasks without a result keep their places, with null."""
    meets: tuple[str, ...] = ()
    """Where what is gathered meets other gathers by point: what a task takes as lists, and in aggregates."""
    branch: bool = False
    """Whether it is read only where a condition in an expression says so."""

    @property
    def follows(self) -> bool:
        """Whether the edge reads the previous round, or the latest, and so closes no cycle."""
        return (self.renewed and self.begun) or any(
            choice.word == "previous" for choice in self.chosen.values()
        )


def reach(starts: Iterable[str], step: Callable[[str], Iterable[str]]) -> list[str]:
    """Return these names and all that steps from them lead to, the nearest first."""
    reached = [*dict.fromkeys(starts)]
    visited = {*reached}
    for name in reached:  # the list grows
        for other in step(name):
            if other not in visited:
                visited.add(other)
                reached.append(other)
    return reached


@dataclass(frozen=True)
class StageGraph:
    """Stages and their edges. It knows no points: ten of an axis and ten million cost the same."""

    workflow: Workflow
    edges: tuple[Edge, ...]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Return the stages, each after those before it, else as in the file. Raise CycleError."""
        names = list(self.workflow.stages)
        places = {name: place for place, name in enumerate(names)}
        sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(names, ()))
        for upstream, downstream in self._waits:
            sorter.add(downstream, upstream)
        sorter.prepare()
        ready: list[int] = []
        order = []
        while sorter.is_active():
            for name in sorter.get_ready():
                heappush(ready, places[name])
            order.append(names[heappop(ready)])
            sorter.done(order[-1])
        return tuple(order)

    def cycles(self) -> Iterator[list[str]]:
        """Yield stages that wait for each other, from the file's first; no stage comes twice."""
        try:
            _ = self.order
        except CycleError:
            import networkx  # slow to load: only to name what is wrong

            place = {name: place for place, name in enumerate(self.workflow.stages)}.__getitem__
            waits = networkx.DiGraph(self._waits)
            for stages in sorted(
                networkx.strongly_connected_components(waits), key=lambda s: min(map(place, s))
            ):
                if len(stages) > 1 or waits.has_edge(*stages, *stages):
                    cycle = networkx.find_cycle(waits.subgraph(stages), min(stages, key=place))
                    names = [upstream for upstream, _ in cycle]
                    turn = names.index(min(names, key=place))
                    yield names[turn:] + names[:turn]

    @property
    def _waits(self) -> Iterator[tuple[str, str]]:
        """The stages that wait for others, within a round: both, the one waited for first."""
        return ((edge.upstream, edge.downstream) for edge in self.edges if not edge.follows)

    @cached_property
    def depth(self) -> dict[str, int]:
        """How many stages come before each on its longest path."""
        depth: dict[str, int] = {}
        for stage in self.order:
            before = [depth[edge.upstream] + 1 for edge in self.into(stage) if not edge.follows]
            depth[stage] = max(before, default=0)
        return depth

    @cached_property
    def _into(self) -> dict[str, tuple[Edge, ...]]:
        return self._by_stage(lambda edge: edge.downstream)

    @cached_property
    def _out_of(self) -> dict[str, tuple[Edge, ...]]:
        return self._by_stage(lambda edge: edge.upstream)

    def _by_stage(self, end: Callable[[Edge], str]) -> dict[str, tuple[Edge, ...]]:
        groups: dict[str, list[Edge]] = {name: [] for name in self.workflow.stages}
        for edge in self.edges:
            groups[end(edge)].append(edge)
        return {name: tuple(edges) for name, edges in groups.items()}

    def into(self, stage: str) -> tuple[Edge, ...]:
        """Return the edges that a stage waits for."""
        return self._into[stage]

    def handed_to(self, stage: str) -> set[str]:
        """Return the hyperparameters that a stage reads as stages before it made them."""
        return {edge.published.name for edge in self._into[stage] if edge.published is not None}

    def out_of(self, stage: str) -> tuple[Edge, ...]:
        """Return the edges that wait for a stage."""
        return self._out_of[stage]

    def after(self, stage: str, loop: str = "") -> frozenset[str]:
        """Return a stage and all that depends on it within a round; of one loop, in earlier rounds too."""

        def step(name: str) -> Iterator[str]:
            for edge in self.out_of(name):
                again = loop in edge.chosen and edge.chosen[loop].word == "previous"
                if again or not edge.follows:
                    yield edge.downstream

        return frozenset(reach([stage], step))

    def before(self, stages: Iterable[str]) -> frozenset[str]:
        """Return these stages and all stages before them, through earlier rounds too."""
        return frozenset(reach(stages, lambda name: [edge.upstream for edge in self.into(name)]))

    def leaves_out(self, name: str) -> bool:
        """Return whether a condition may leave out tasks of a stage: its own, or one of a stage before it."""
        line = reach([name], lambda upstream: [e.upstream for e in self.into(upstream) if not e.gathered])
        return any(self.workflow.stages[upstream].when not in (None, True) for upstream in line)

    def decides(self, edge: Edge) -> bool:
        """Return whether tasks depend on what is upstream: on a result, or on whether it was left out."""
        reads = edge.output is not None or edge.hyperparameter is not None
        return reads or (not (edge.gathered or edge.service) and self.leaves_out(edge.upstream))

    def critical_path(self, seconds: Mapping[str, float]) -> tuple[str, ...]:
        """Return the longest chain of stages, given how long one task of each takes, in seconds."""
        import networkx  # slow to load: only where a plan asks for it

        chains = networkx.DiGraph()
        for upstream, downstream in (*(("", stage) for stage in self.order), *self._waits):
            chains.add_edge(upstream, downstream, weight=max(seconds[downstream], _SHORT))
        return tuple(networkx.dag_longest_path(chains)[1:])
