"""Rules of streams: which stages may read one, and how."""

from __future__ import annotations

from collections.abc import Iterator

from diel.graph.stage_graph import Edge, StageGraph
from diel.spec import Flaw, Input, Workflow


def check_stream(use: Edge, *, stream: bool) -> list[Flaw]:
    """Checks that streams are read by inputs, from their beginning, and that only streams are shared."""
    source = f"{use.upstream}.{use.output}"
    if not stream:
        hint = f"drop it, or make {source} a stream: outputs: {{{use.output}: {{stream: true}}}}"
        return [Flaw(f"`share` is for streams, and {source} is none", hint, (*use.key, "share"))]
    if use.name is None:
        what = "an axis" if use.axis is not None else "a value"
        hint = f"read it as an input, inputs: {{{use.output}: {source}}}, and its items with context.stream"
        return [Flaw(f"{source} is a stream, not {what}", hint, use.key)]
    if use.picked:
        hint = "drop `at`: a stream comes from all tasks while they run; axes in both stages are matched"
        return [Flaw(f"{source} is a stream, of which no part can be picked", hint, (*use.key, "at"))]
    return []


def stream_pairs(graph: StageGraph) -> list[tuple[str, str]]:
    """Who puts and who gets, for each edge that is a stream."""
    return [(edge.upstream, edge.downstream) for edge in graph.edges if edge.stream]


def stream_inputs(workflow: Workflow, name: str) -> frozenset[str]:
    """The inputs of a stage that are streams: its module gets them from its context, not as parameters."""
    found = set()
    for label, given in workflow.stages[name].inputs.items():
        upstream, _, output = given.source.rpartition(".")
        stage = workflow.stages.get(upstream)
        made = None if stage is None else stage.outputs.get(output)
        if made is not None and made.stream is not None:
            found.add(label)
    return frozenset(found)


def check_streams(graph: StageGraph) -> Iterator[Flaw]:
    """Checks that each stream is read, and by all readers along the same axes: each task has one channel."""
    yield from _unread(graph)
    first: dict[tuple[str, str | None], Edge] = {}
    for edge in graph.edges:
        if edge.stream:
            yield from _input_flaws(edge, graph.workflow.stages[edge.downstream].inputs[str(edge.name)])
            other = first.setdefault((edge.upstream, edge.output), edge)
            if edge.matched != other.matched:
                shared = ", ".join(other.matched) or "no axis"
                yield Flaw(
                    f"'{other.downstream}' reads this stream along {shared}, '{edge.downstream}' does not",
                    "give each an output of its own",
                    edge.key,
                )


def _input_flaws(edge: Edge, given: Input) -> Iterator[Flaw]:
    """Items come one by one: there is no file, no list and no promise."""
    source = f"{edge.upstream}.{edge.output}"
    if given.stage is not None:
        hint = "drop `stage`: items of a stream come to the task by themselves"
        yield Flaw(f"{source} is a stream: there is no file to copy", hint, (*edge.key, "stage"))
    if given.shard is not None:
        hint = "write `share: true`: the tasks then share the items of the stream"
        yield Flaw(f"{source} is a stream, not a list of files", hint, (*edge.key, "shard"))
    for name in given.expectations:
        message = f"`{name}` is no promise that a stream can make: {source} is one"
        yield Flaw(message, "drop it", (*edge.key, name))


def _unread(graph: StageGraph) -> Iterator[Flaw]:
    read = {(edge.upstream, edge.output) for edge in graph.edges if edge.stream}
    for name, stage in graph.workflow.stages.items():
        for label, output in stage.outputs.items():
            if output.stream is not None and (name, label) not in read:
                hint = f"add inputs: {{{label}: {name}.{label}}} to the stage that reads it"
                yield Flaw("no stage reads this stream", hint, ("stages", name, "outputs", label, "stream"))
