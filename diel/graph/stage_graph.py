"""The stage graph: one node a stage, one edge a use of another stage's result.

Nothing here knows how many points an axis has, so ten points and ten million cost the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import networkx

from diel.graph.edge import Edge
from diel.spec import Workflow


@dataclass(frozen=True)
class StageGraph:
    """Stages and their edges, in the order in which they can run."""

    workflow: Workflow
    edges: tuple[Edge, ...]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The stages, each after all that it depends on; ties keep the file's order."""
        position = {name: number for number, name in enumerate(self.workflow.stages)}
        graph = digraph(self.workflow, self.edges)
        return tuple(networkx.lexicographical_topological_sort(graph, key=position.__getitem__))

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
        return {s: tuple(e for e in self.edges if e.downstream == s) for s in self.workflow.stages}

    @cached_property
    def _out_of(self) -> dict[str, tuple[Edge, ...]]:
        return {s: tuple(e for e in self.edges if e.upstream == s) for s in self.workflow.stages}

    def into(self, stage: str) -> tuple[Edge, ...]:
        """The edges that a stage waits for."""
        return self._into[stage]

    def out_of(self, stage: str) -> tuple[Edge, ...]:
        """The edges that wait for a stage."""
        return self._out_of[stage]

    def after(self, stage: str) -> frozenset[str]:
        """A stage and all that depends on it."""
        graph = digraph(self.workflow, self.edges)
        return frozenset(networkx.descendants(graph, stage)) | {stage}

    def critical_path(self, seconds: Mapping[str, float]) -> tuple[str, ...]:
        """The longest chain of stages, given how long one task of each takes, in seconds."""
        graph = networkx.DiGraph()
        graph.add_nodes_from(self.order)
        for edge in self.edges:
            if not edge.follows:
                graph.add_edge(edge.upstream, edge.downstream, weight=max(seconds[edge.upstream], 1e-9))
        end = "\0end"  # so that the last stage's own time counts too
        for stage in self.order:
            graph.add_edge(stage, end, weight=max(seconds[stage], 1e-9))
        return tuple(networkx.dag_longest_path(graph)[:-1])


def digraph(workflow: Workflow, edges: Iterable[Edge]) -> networkx.DiGraph:
    """Stages and edges as networkx sees them; an edge to the round before closes no cycle."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(workflow.stages)
    graph.add_edges_from((e.upstream, e.downstream) for e in edges if not e.follows)
    return graph
