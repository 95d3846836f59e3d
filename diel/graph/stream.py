"""What an edge must keep to that reads a stream."""

from __future__ import annotations

from diel.graph.stage_graph import Edge
from diel.spec import Flaw, Workflow


def check_stream(use: Edge, *, stream: bool) -> list[Flaw]:
    """Streams are read by inputs, from their beginning; what is no stream is not shared out."""
    source = f"{use.upstream}.{use.output}"
    if not stream:
        hint = f"drop it, or make {source} a stream: outputs: {{{use.output}: {{stream: true}}}}"
        return [Flaw(f"`share` is for streams, and {source} is none", hint, (*use.key, "share"))]
    if use.name is None:
        what = "axis" if use.axis is not None else "value"
        hint = f"read it as an input, inputs: {{{use.output}: {source}}}, and its items with context.stream"
        return [Flaw(f"{source} is a stream, and no {what}", hint, use.key)]
    if use.picked:
        hint = "drop `at`: a stream comes from all tasks while they run; axes in both stages are matched"
        return [Flaw(f"{source} is a stream, of which nothing can be picked", hint, (*use.key, "at"))]
    return []


def stream_inputs(workflow: Workflow, name: str) -> frozenset[str]:
    """The inputs of a stage that are streams: its module gets them from its context, not as parameters."""
    found = set()
    for label, given in workflow.stages[name].inputs.items():
        upstream, _, output = given.source.partition(".")
        stage = workflow.stages.get(upstream)
        made = None if stage is None else stage.outputs.get(output)
        if made is not None and made.stream is not None:
            found.add(label)
    return frozenset(found)
