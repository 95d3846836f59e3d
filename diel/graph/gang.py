"""Stages that run at the same time: joined by a stream, or by `beside` (gang scheduling)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from diel.errors import did_you_mean
from diel.graph.stage_graph import Edge, StageGraph, reach
from diel.graph.stream import stream_pairs
from diel.spec import Flaw, Workflow
from diel.spec.model import Key


@dataclass(frozen=True)
class Gang:
    """Stages whose tasks are placed together, for each combination of the points of their common axes."""

    stages: tuple[str, ...]
    """In the order of the graph."""
    axes: tuple[str, ...]
    """The axes that all of them run over."""
    in_waves: frozenset[str]
    """Stages that only write streams: once one of their tasks runs, the others may come later."""

    @cached_property
    def name(self) -> str:
        return "+".join(self.stages)


def gangs(graph: StageGraph) -> tuple[Gang, ...]:
    """The gangs of a workflow; a stage is in at most one."""
    workflow = graph.workflow
    partners: dict[str, set[str]] = {name: {name} for name in workflow.stages}
    beside, along = [*_beside(workflow)], stream_pairs(graph)
    for one, other in (*beside, *along):
        if partners[one] is not partners[other]:
            fewer, more = sorted((partners[one], partners[other]), key=len)
            more |= fewer
            partners |= dict.fromkeys(fewer, more)
    held = {reader for _, reader in along} | {name for pair in beside for name in pair}
    found: list[Gang] = []
    place = {name: place for place, name in enumerate(graph.order)}
    for together in {id(partners[name]): partners[name] for name in graph.order}.values():
        if len(together) > 1:
            stages = tuple(sorted(together, key=place.__getitem__))
            first, *others = (workflow.stages[other].over for other in stages)
            axes = tuple(axis for axis in first if all(axis in over for over in others))
            found.append(Gang(stages, axes, frozenset(stages) - held))
    return tuple(found)


def _beside(workflow: Workflow) -> Iterator[tuple[str, str]]:
    for name, stage in workflow.stages.items():
        yield from ((name, other) for other in stage.beside if other in workflow.stages)


def check_beside(workflow: Workflow) -> Iterator[Flaw]:
    """Checks that `beside` names other stages."""
    for name, stage in workflow.stages.items():
        for number, other in enumerate(stage.beside):
            key: Key = ("stages", name, "beside", number)
            if other == name:
                hint = "make each part a stage, and name the other"
                yield Flaw("a stage cannot be beside itself", hint, key)
            elif other not in workflow.stages:
                hint = did_you_mean(other, workflow.stages) or f"stages: {', '.join(workflow.stages)}"
                yield Flaw(f"no stage '{other}'", hint, key)


def check_gangs(graph: StageGraph) -> list[Flaw]:
    """Checks that stages that run at the same time do not wait for each other."""
    flaws: list[Flaw] = []
    for gang in gangs(graph):
        flaws += _waits(graph, gang)
        flaws += _come_late(graph.workflow, gang)
    return flaws


def _waits(graph: StageGraph, gang: Gang) -> Iterator[Flaw]:
    awaited = {name for name in gang.stages if graph.out_of(name)}
    first = min((graph.depth[name] for name in awaited), default=0)
    """None of them is above this, so nothing further up needs a look."""

    def above(name: str) -> Iterator[str]:
        before = (edge.upstream for edge in _waited_for(graph, name))
        return (other for other in before if graph.depth[other] >= first)

    for name in gang.stages:
        for edge in _waited_for(graph, name):
            other = next((one for one in reach([edge.upstream], above) if one in awaited), None)
            if other is not None:
                way = "" if edge.upstream == other else f", by way of '{edge.upstream}'"
                yield Flaw(
                    f"'{name}' runs at the same time as '{other}', and waits for its end{way}",
                    "pass this through the stream too, or drop the stream or `beside`",
                    edge.key,
                )
                break


def _waited_for(graph: StageGraph, name: str) -> Iterator[Edge]:
    return (edge for edge in graph.into(name) if not edge.stream and not edge.follows)


def _come_late(workflow: Workflow, gang: Gang) -> Iterator[Flaw]:
    """Refuses axes whose points come as earlier ones end: they never all run at the same time."""
    for name in gang.stages:
        stage = workflow.stages[name]
        if name in gang.in_waves:
            continue
        for number, label in enumerate(stage.over):
            axis = workflow.axes.get(label)
            if label in gang.axes or axis is None or not axis.adaptive:
                continue
            other = next(other for other in gang.stages if label not in workflow.stages[other].over)
            yield Flaw(
                f"'{name}' runs at the same time as '{other}', which has no axis '{label}': "
                "its points come one after the other, and never all run at once",
                f"run '{other}' over '{label}' too",
                ("stages", name, "over", number),
            )
