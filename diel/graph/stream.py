"""What an edge must keep to that reads a stream."""

from __future__ import annotations

from diel.graph.edge import Flaw
from diel.graph.uses import Use
from diel.spec import Workflow


def check_stream(use: Use, *, stream: bool) -> list[Flaw]:
    """Streams are read by inputs, from their beginning; what is no stream is not shared out."""
    source = f"{use.stage}.{use.output}"
    if not stream:
        hint = f"drop it, or make {source} a stream: outputs: {{{use.output}: {{stream: true}}}}"
        return [Flaw((*use.key, "share"), f"`share` is for streams, and {source} is none", hint)]
    if use.name is None:
        what = "an axis" if use.axis is not None else "a value"
        hint = f"read it as an input, inputs: {{{use.output}: {source}}}, and its items with context.stream"
        return [Flaw(use.key, f"{source} is a stream, and no {what.split()[1]}", hint)]
    flaws = []
    if use.at:
        hint = "drop `at`: a stream comes from all tasks while they run; axes in both stages are matched"
        flaws.append(Flaw((*use.key, "at"), f"{source} is a stream, of which nothing can be picked", hint))
    return flaws


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
