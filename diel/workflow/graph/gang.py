"""Stages that run at the same time: joined by a stream, or by `beside` (gang scheduling)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from diel.base.errors import did_you_mean
from diel.workflow.graph.stage_graph import Edge, StageGraph, reach
from diel.workflow.models import Input, Violation, Workflow
from diel.workflow.models.model import Key


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
    """Return the gangs of a workflow; a stage is in at most one."""
    workflow = graph.workflow
    partners: dict[str, set[str]] = {name: {name} for name in workflow.stages}
    along = [(edge.upstream, edge.downstream) for edge in graph.edges if edge.stream]
    stages = workflow.stages.items()
    beside = [(name, other) for name, member in stages for other in member.beside if other in workflow.stages]
    for member, other in (*beside, *along):
        if partners[member] is not partners[other]:
            fewer, more = sorted((partners[member], partners[other]), key=len)
            more |= fewer
            partners |= dict.fromkeys(fewer, more)
    held = {reader for _, reader in along} | {name for pair in beside for name in pair}
    groups: list[Gang] = []
    place = {name: place for place, name in enumerate(graph.order)}
    for together in {id(partners[name]): partners[name] for name in graph.order}.values():
        if len(together) > 1:
            names = tuple(sorted(together, key=place.__getitem__))
            first, *rest = (workflow.stages[other].over for other in names)
            axes = tuple(axis for axis in first if all(axis in over for over in rest))
            groups.append(Gang(names, axes, frozenset(names) - held))
    return tuple(groups)


def check_beside(workflow: Workflow) -> Iterator[Violation]:
    """Check that `beside` names other stages."""
    for name, stage in workflow.stages.items():
        for number, other in enumerate(stage.beside):
            key: Key = ("stages", name, "beside", number)
            if other == name:
                hint = "make each part a stage, and name the other"
                yield Violation("a stage cannot be beside itself", hint, key)
            elif other not in workflow.stages:
                hint = did_you_mean(other, workflow.stages) or f"stages: {', '.join(workflow.stages)}"
                yield Violation(f"no stage '{other}'", hint, key)


def check_gangs(graph: StageGraph) -> Iterator[Violation]:
    """Check that stages that run at the same time do not wait for each other."""
    for gang in gangs(graph):
        yield from _waits(graph, gang)
        yield from _come_late(graph.workflow, gang)


def _waits(graph: StageGraph, gang: Gang) -> Iterator[Violation]:
    awaited = {name for name in gang.stages if graph.out_of(name)}
    first = min((graph.depth[name] for name in awaited), default=0)
    """None of them is above this, so nothing further up needs a look."""

    def above(name: str) -> Iterator[str]:
        before = (edge.upstream for edge in _waited_for(graph, name))
        return (other for other in before if graph.depth[other] >= first)

    for name in gang.stages:
        for edge in _waited_for(graph, name):
            other = next((stage for stage in reach([edge.upstream], above) if stage in awaited), None)
            if other is not None:
                way = "" if edge.upstream == other else f", by way of '{edge.upstream}'"
                yield Violation(
                    f"'{name}' runs at the same time as '{other}', and waits for its end{way}",
                    "pass this through the stream too, or drop the stream or `beside`",
                    edge.key,
                )
                break


def _waited_for(graph: StageGraph, name: str) -> Iterator[Edge]:
    return (edge for edge in graph.into(name) if not edge.stream and not edge.follows)


def _come_late(workflow: Workflow, gang: Gang) -> Iterator[Violation]:
    """Refuse axes whose points come as earlier ones end: they never all run at the same time."""
    for name in gang.stages:
        stage = workflow.stages[name]
        if name in gang.in_waves:
            continue
        for number, label in enumerate(stage.over):
            axis = workflow.axes.get(label)
            if label in gang.axes or axis is None or not axis.adaptive:
                continue
            other = next(other for other in gang.stages if label not in workflow.stages[other].over)
            yield Violation(
                f"'{name}' runs at the same time as '{other}', which has no axis '{label}': "
                "its points come one after the other, and never all run at once",
                f"run '{other}' over '{label}' too",
                ("stages", name, "over", number),
            )


def check_stream(use: Edge, *, stream: bool) -> list[Violation]:
    """Check that streams are read by inputs, from their beginning, and that only streams are shared."""
    source = f"{use.upstream}.{use.output}"
    if not stream:
        hint = f"drop it, or make {source} a stream: outputs: {{{use.output}: {{stream: true}}}}"
        return [Violation(f"`share` is for streams, and {source} is none", hint, (*use.key, "share"))]
    if use.name is None:
        what = "an axis" if use.axis is not None else "a value"
        hint = f"read it as an input, inputs: {{{use.output}: {source}}}, and its items with context.stream"
        return [Violation(f"{source} is a stream, not {what}", hint, use.key)]
    if use.picked:
        hint = "drop `at`: a stream comes from all tasks while they run; axes in both stages are matched"
        return [Violation(f"{source} is a stream, of which no part can be picked", hint, (*use.key, "at"))]
    return []


def stream_inputs(workflow: Workflow, name: str) -> frozenset[str]:
    """Return the inputs of a stage that are streams: its module gets these from its context."""
    labels = set()
    for label, declared in workflow.stages[name].inputs.items():
        upstream, _, output = declared.source.rpartition(".")
        stage = workflow.stages.get(upstream)
        source = None if stage is None else stage.outputs.get(output)
        if source is not None and source.stream is not None:
            labels.add(label)
    return frozenset(labels)


def check_streams(graph: StageGraph) -> Iterator[Violation]:
    """Check that each stream is read, by all readers along the same axes: each task has one channel."""
    yield from _unread(graph)
    first: dict[tuple[str, str | None], Edge] = {}
    for edge in graph.edges:
        if edge.stream:
            yield from _input_flaws(edge, graph.workflow.stages[edge.downstream].inputs[str(edge.name)])
            other = first.setdefault((edge.upstream, edge.output), edge)
            if edge.matched != other.matched:
                shared = ", ".join(other.matched) or "no axis"
                yield Violation(
                    f"'{other.downstream}' reads this stream along {shared}, '{edge.downstream}' does not",
                    "give each an output of its own",
                    edge.key,
                )


def _input_flaws(edge: Edge, declared: Input) -> Iterator[Violation]:
    """Yield keys that do not go with a stream's items: a file, a list, a promise."""
    source = f"{edge.upstream}.{edge.output}"
    if declared.stage is not None:
        hint = "drop `stage`: items of a stream come to the task by themselves"
        yield Violation(f"{source} is a stream: there is no file to copy", hint, (*edge.key, "stage"))
    if declared.shard is not None:
        hint = "write `share: true`: the tasks then share the items of the stream"
        yield Violation(f"{source} is a stream, not a list of files", hint, (*edge.key, "shard"))
    for name in declared.expectations:
        message = f"`{name}` is no promise that a stream can make: {source} is one"
        yield Violation(message, "drop it", (*edge.key, name))


def _unread(graph: StageGraph) -> Iterator[Violation]:
    read = {(edge.upstream, edge.output) for edge in graph.edges if edge.stream}
    for name, stage in graph.workflow.stages.items():
        for label, output in stage.outputs.items():
            if output.stream is not None and (name, label) not in read:
                hint = f"add inputs: {{{label}: {name}.{label}}} to the stage that reads it"
                yield Violation(
                    "no stage reads this stream", hint, ("stages", name, "outputs", label, "stream")
                )
