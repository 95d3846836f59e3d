"""Builds the stage graph of a workflow, and tells all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from diel.errors import MAX_PROBLEMS, did_you_mean
from diel.graph.adaptive import check_adaptive, check_waits
from diel.graph.edge import Edge, Flaw
from diel.graph.gang import check_beside, check_gangs
from diel.graph.publishing import check_publishers, published_uses
from diel.graph.rules import check_at, check_axes, check_cycles, choice_of
from diel.graph.service import check_service, check_services, is_renewed, nearest_service
from diel.graph.stage_graph import StageGraph
from diel.graph.stream import check_stream
from diel.graph.uses import Use, uses
from diel.spec import Workflow


def build(workflow: Workflow) -> tuple[StageGraph, list[Flaw]]:
    """The graph of a workflow, and all that is wrong with it, or more than is shown."""
    flaws: list[Flaw] = []
    edges: list[Edge] = []
    for name, stage in workflow.stages.items():
        flaws += islice(check_axes(workflow, name, stage), MAX_PROBLEMS + 1)
        for use in uses(workflow, name, stage, flaws):
            edge, wrong = edge_of(workflow, name, use)
            flaws += wrong
            if edge is not None:
                edges.append(edge)
            if len(flaws) > MAX_PROBLEMS:
                break
        if len(flaws) > MAX_PROBLEMS:
            return StageGraph(workflow, tuple(edges)), flaws
    graph = StageGraph(workflow, tuple(edges))
    cycles = check_cycles(graph)
    flaws += cycles
    if workflow.adaptive:
        flaws += islice(check_adaptive(workflow), MAX_PROBLEMS + 1)
    if workflow.any_stage(lambda stage: stage.beside):
        flaws += islice(check_beside(workflow), MAX_PROBLEMS + 1)
    if cycles:
        return graph, flaws
    if workflow.any_stage(lambda stage: stage.publishes):
        flaws += islice(check_publishers(graph), MAX_PROBLEMS + 1)
        for name, use in published_uses(graph, flaws):
            edge, wrong = edge_of(workflow, name, use)
            flaws += wrong
            if edge is not None:
                edges.append(edge)
        graph = StageGraph(workflow, tuple(edges))
    return graph, [*flaws, *_whole_flaws(graph)]


def _whole_flaws(graph: StageGraph) -> Iterator[Flaw]:
    """What only the whole graph shows, once it has no cycles."""
    workflow = graph.workflow
    if workflow.adaptive:
        yield from check_waits(graph)
    if workflow.any_stage(lambda stage: stage.joined):
        yield from check_gangs(graph)
    if workflow.any_stage(lambda stage: stage.service is not None or stage.services):
        yield from check_services(graph)


def edge_of(workflow: Workflow, name: str, use: Use) -> tuple[Edge | None, list[Flaw]]:
    if use.stage not in workflow.stages:
        hint = did_you_mean(use.stage, workflow.stages) or f"stages: {', '.join(workflow.stages)}"
        if use.service:
            hint = nearest_service(workflow, use.stage)
        return None, [Flaw(use.key, f"no stage '{use.stage}'", hint)]
    if use.stage == name and "previous" not in use.at.values():
        hint = "in a loop, `at: {AXIS: previous}` reads the round before"
        if use.service:
            hint = "a service is asked by other stages"
        return None, [Flaw(use.key, f"the stage depends on itself: {name} -> {name}", hint)]
    source, reader = workflow.stages[use.stage], workflow.stages[name]
    upstream, downstream = source.over, reader.over
    flaws = check_at(workflow, use, name)
    stream = (made := source.outputs.get(use.output or "")) is not None and made.stream is not None
    if stream or use.share:
        flaws += check_stream(use, stream=stream)
    if source.service is not None or use.service or use.begins:
        flaws += check_service(workflow, name, use)
    chosen = {
        label: choice for label, point in use.at.items() if (choice := choice_of(workflow, label, point))
    }
    several = [label for label, choice in chosen.items() if choice.several]
    matched = tuple(a for a in upstream if a in downstream and a not in use.at)
    gathered = tuple(a for a in upstream if (a not in downstream and a not in use.at) or a in several)
    if use.min_success < 1 and not gathered:
        message = f"nothing is gathered here: '{use.stage}' gives one result a task"
        flaws.append(Flaw((*use.key, "min_success"), message))
    edge = Edge(
        key=use.key,
        upstream=use.stage,
        downstream=name,
        output=use.output,
        name=use.name,
        axis=use.axis,
        picked={label: point for label, point in use.at.items() if label not in chosen},
        matched=matched,
        gathered=gathered,
        min_success=use.min_success,
        chosen=chosen,
        initially=use.initially,
        hyperparameter=use.hyperparameter,
        published=use.published,
        stream=stream and use.name is not None,
        share=use.share,
        service=use.service,
        optional=use.optional,
        renewed=reader.service is not None and is_renewed(reader, use),
        begun=use.begins,
    )
    if use.stage == name and not edge.follows:
        return None, flaws  # `previous` of no loop: nothing can wait for itself
    return edge, flaws
