"""Checks of what goes to nodes' own disks, and of inputs with `shard`."""

from __future__ import annotations

from collections.abc import Iterator

from diel.check.flaws import Check
from diel.expressions import Template, names_in, walk
from diel.graph import Edge, Key
from diel.graph.stage_graph import reach
from diel.site import nodes_of
from diel.spec import Output, Stage


def check_staging(found: Check) -> None:
    """Checks that `stage`, `shard` and `drain` are used where they work."""
    for name, stage in found.workflow.stages.items():
        edges = {edge.name: edge for edge in found.graph.into(name) if edge.name is not None}
        for label, given in stage.inputs.items():
            key: Key = ("stages", name, "inputs", label)
            edge = edges.get(label)
            if edge is not None and edge.stream:
                continue
            made = found.workflow.stages[edge.upstream].outputs if edge is not None else {}
            output = made.get(str(edge and edge.output))
            if given.stage is not None:
                _check_staged(found, (*key, "stage"), output, given.source)
            if given.shard is not None:
                for message, hint in _shard_flaws(found, stage, edge, output, given.source, given.shard.by):
                    found.add((*key, "shard"), message, hint)
        whole = stage.resources.mpi and (nodes_of(stage.resources) > 1 or stage.resources.nodes is not None)
        for label, own in stage.outputs.items():
            if own.drain and whole:
                message = (
                    "a task on whole nodes has several disks: an output cannot be drained from one of them"
                )
                hint = "drop `drain`; write to the run's directory, which all ranks see"
                found.add(("stages", name, "outputs", label, "drain"), message, hint)


def _check_staged(found: Check, key: Key, output: Output | None, source: str) -> None:
    if source.startswith("hp."):
        found.add(key, f"{source} is a hyperparameter: there is no file to copy", "drop `stage`")
    elif output is not None and output.value is not None:
        hint = "drop `stage`: values come with the task"
        found.add(key, f"{source} is a value: there is no file to copy", hint)


def _shard_flaws(
    found: Check, stage: Stage, edge: Edge | None, output: Output | None, source: str, by: str
) -> Iterator[tuple[str, str]]:
    if source.startswith("hp."):
        yield f"{source} is a hyperparameter: there is nothing to split", "drop `shard`"
    elif output is not None and edge is not None and not edge.gathered and output.kind not in (None, "list"):
        hint = "split gathered results, a directory, a list of files, or an array"
        yield f"{source} is one value: there is nothing to split", hint
    elif by != "rank":
        yield from () if edge is None else _task_flaws(found, stage, edge)
    elif not stage.resources.mpi:
        hint = "write resources: {ranks: 4}, or split it among tasks: shard: task"
        yield "split by rank, but a task of this stage is one process", hint


def _absent(found: Check, stage: Stage, edge: Edge, own: list[str]) -> Iterator[tuple[str, str]]:
    """Checks that it is known which tasks run when the first one gets its share."""
    name, stages = edge.downstream, found.workflow.stages
    late = found.graph.handed_to(name)
    for chain in names_in(stage.when) or ():
        read = params if chain[0] == "params" and (params := stage.params.get(chain[-1])) else None
        inner = [one for _, text in walk(read) if isinstance(text, Template) for one in text.references]
        for one in (chain, *inner):
            if one[0] in stages or one[0] == "inputs" or (one[0] == "hp" and late.intersection(one[1:2])):
                hint = "let `when` read axis parameters and hyperparameters alone, or drop `shard`"
                yield f"`when` reads {'.'.join(one)}: how many tasks share an input is known too late", hint
                return
    for other in found.graph.into(name):
        if not other.gathered and {*other.matched} & {*own} and _leaves_out(found, other.upstream):
            message = f"tasks that '{other.upstream}' leaves out by `when` would read a share of the input"
            yield message, f"write the `when` of '{other.upstream}' here, and let it run over other axes"


def _leaves_out(found: Check, name: str) -> bool:
    """Whether tasks of a stage may be left out, by its own condition or by that of a stage before it."""
    into = found.graph.into
    line = reach([name], lambda one: [edge.upstream for edge in into(one) if not edge.gathered])
    return any(found.workflow.stages[one].when not in (None, True) for one in line)


def _task_flaws(found: Check, stage: Stage, edge: Edge) -> Iterator[tuple[str, str]]:
    """Checks that an input split by task has several tasks, known when the first begins."""
    own = [axis for axis in stage.over if axis not in edge.matched]
    if not own:
        if stage.over:
            matched = ", ".join(edge.matched)
            hint = "drop `shard`: each task already reads its own; or run over one more axis"
            yield f"each task reads what was made at its own point of {matched}: no other shares it", hint
        else:
            yield "split by task, but the stage has one task", "write over: [AXIS], or drop `shard`"
        return
    for axis in own:
        given = found.workflow.axes.get(axis)
        if given is not None and given.adaptive:
            message = f"the points of '{axis}' come one by one ({given.word}): its tasks cannot split"
            hint = f"split it over another axis; each task of the {given.word} needs all of it"
            yield f"{message} an input", hint
    yield from _absent(found, stage, edge, own)
