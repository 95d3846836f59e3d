"""The stage graph: one node a stage, one edge a use of another stage's result.

Nothing here knows how many points an axis has, so ten points and ten million cost the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from heapq import heappop, heappush

from diel.graph.edge import Edge
from diel.spec import Workflow


@dataclass(frozen=True)
class StageGraph:
    """Stages and their edges, in the order in which they can run."""

    workflow: Workflow
    edges: tuple[Edge, ...]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The stages, each after all that it depends on; ties keep the file's order.

        Raises graphlib.CycleError where stages wait for each other.
        """
        names = list(self.workflow.stages)
        places = {name: place for place, name in enumerate(names)}
        sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(names)), ()))
        for edge in self.edges:
            if not edge.follows:
                sorter.add(places[edge.downstream], places[edge.upstream])
        sorter.prepare()
        ready: list[int] = []
        order = []
        while sorter.is_active():
            for place in sorter.get_ready():
                heappush(ready, place)
            first = heappop(ready)
            order.append(names[first])
            sorter.done(first)
        return tuple(order)

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
        found: dict[str, list[Edge]] = {name: [] for name in self.workflow.stages}
        for edge in self.edges:
            found[end(edge)].append(edge)
        return {name: tuple(edges) for name, edges in found.items()}

    def into(self, stage: str) -> tuple[Edge, ...]:
        """The edges that a stage waits for."""
        return self._into[stage]

    def out_of(self, stage: str) -> tuple[Edge, ...]:
        """The edges that wait for a stage."""
        return self._out_of[stage]

    def after(self, stage: str) -> frozenset[str]:
        """A stage and all that depends on it."""
        from diel.graph.digraph import descendants  # slow to import: see there

        return descendants(self.workflow, self.edges, stage) | {stage}

    def critical_path(self, seconds: Mapping[str, float]) -> tuple[str, ...]:
        """The longest chain of stages, given how long one task of each takes, in seconds."""
        from diel.graph.digraph import longest_path  # slow to import: see there

        return longest_path(self.workflow, self.edges, seconds)
