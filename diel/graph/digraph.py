"""The stage graph as networkx sees it: the only file that imports it.

It is imported where a cycle has to be named, a path measured or descendants found, for it takes a
third of the time that `diel validate` may take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import networkx

from diel.graph.edge import Edge
from diel.spec import Workflow

_SHORT = 1e-9
"""Seconds of a stage of which nothing is known: so that a chain of such stages still counts."""


def cycles(workflow: Workflow, edges: Iterable[Edge]) -> list[list[str]]:
    """One cycle of each knot of stages that wait for each other, beginning with the file's first."""
    graph = _digraph(workflow, edges)
    position = {name: place for place, name in enumerate(workflow.stages)}.__getitem__
    found = []
    for knot in networkx.strongly_connected_components(graph):
        if len(knot) > 1:
            cycle = networkx.find_cycle(graph.subgraph(knot), min(knot, key=position))
            names = [edge[0] for edge in cycle]
            turn = names.index(min(names, key=position))
            found.append(names[turn:] + names[:turn])
    return found


def descendants(workflow: Workflow, edges: Iterable[Edge], stage: str) -> frozenset[str]:
    """All stages that depend on a stage."""
    return frozenset(networkx.descendants(_digraph(workflow, edges), stage))


def longest_path(workflow: Workflow, edges: Iterable[Edge], seconds: Mapping[str, float]) -> tuple[str, ...]:
    """The longest chain of stages, given how long one task of each takes, in seconds."""
    graph = _digraph(workflow, edges)
    for upstream, _, facts in graph.edges(data=True):
        facts["weight"] = max(seconds[upstream], _SHORT)
    end = "\0end"  # so that the last stage's own time counts too
    for stage in workflow.stages:
        graph.add_edge(stage, end, weight=max(seconds[stage], _SHORT))
    return tuple(networkx.dag_longest_path(graph)[:-1])


def _digraph(workflow: Workflow, edges: Iterable[Edge]) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(workflow.stages)
    graph.add_edges_from((e.upstream, e.downstream) for e in edges if not e.follows)
    return graph
