"""Checks of streams: they come item by item, so that there is no file, no list and no promise."""

from __future__ import annotations

from diel.check.flaws import Check


def check_streams(found: Check) -> None:
    """What an input says of a stream is about streams."""
    for edge in found.graph.edges:
        if not edge.stream:
            continue
        given = found.workflow.stages[edge.downstream].inputs[str(edge.name)]
        source = f"{edge.upstream}.{edge.output}"
        if given.stage is not None:
            hint = "drop `stage`: items of a stream come to the task on their own"
            found.add((*edge.key, "stage"), f"{source} is a stream: there is no file to copy", hint)
        if given.shard is not None:
            hint = "write `share: true`: the tasks then share the items of the stream"
            found.add((*edge.key, "shard"), f"{source} is a stream, not a list of files", hint)
        for name in given.expectations:
            message = f"`{name}` is not a promise that a stream can make, and {source} is one"
            found.add((*edge.key, name), message, "drop it")
