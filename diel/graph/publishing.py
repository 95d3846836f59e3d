"""Stages that publish values of hyperparameters, and the stages that read them.

A stage reads what is published by a stage that it depends on anyway, so that these edges close no cycle and
make nothing wait that would not have waited. Where several publish a name, one of them comes after all the
others: that is the one that is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from diel.errors import did_you_mean
from diel.graph.stage_graph import Edge, Published, StageGraph
from diel.graph.uses import hyperparameter_reads
from diel.spec import Flaw, Workflow
from diel.spec.model import Key


def check_publishers(graph: StageGraph) -> Iterator[Flaw]:
    """What is wrong with `publishes`, except the outputs, which depend on modules."""
    workflow = graph.workflow
    for name, stage in workflow.stages.items():
        for published in stage.publishes:
            key: Key = ("stages", name, "publishes", published)
            if published not in workflow.hyperparameters:
                known = ", ".join(workflow.hyperparameters) or "none"
                hint = did_you_mean(published, workflow.hyperparameters) or f"hyperparameters: {known}"
                yield Flaw(f"no hyperparameter '{published}'", hint, key)
                continue
            for label in _searches(workflow, name, published):
                hint = (
                    f"let a stage without '{label}' publish it, that reads "
                    f"{{from: hp.{published}, at: {{{label}: best}}}}"
                )
                message = f"'{name}' runs over '{label}', a search that sets '{published}' itself"
                yield Flaw(message, hint, key)
    yield from _check_order(graph)


def _searches(workflow: Workflow, name: str, hyperparameter: str) -> list[str]:
    return [
        label
        for label in workflow.stages[name].over
        if label in workflow.axes and hyperparameter in workflow.axes[label].sets
    ]


def _check_order(graph: StageGraph) -> Iterator[Flaw]:
    """Checks that of two stages that publish the same name, one depends on the other."""
    for published, names in _publishers(graph).items():
        for place, name in enumerate(names):
            for other in names[:place]:
                if name not in graph.after(other):
                    yield Flaw(
                        f"'{other}' publishes '{published}' too, and neither depends on the other",
                        f"make one later, for instance by `after: [{other}]`, or drop one",
                        ("stages", name, "publishes", published),
                    )


def _publishers(graph: StageGraph) -> dict[str, list[str]]:
    """By hyperparameter the stages that publish it, in the order in which they run."""
    found: dict[str, list[str]] = {}
    for name in graph.order:
        for published in graph.workflow.stages[name].publishes:
            if published in graph.workflow.hyperparameters:
                found.setdefault(published, []).append(name)
    return found


def published_uses(graph: StageGraph, flaws: list[Flaw]) -> Iterator[Edge]:
    """The edge from the stage that publishes a value to each stage that reads it."""
    workflow = graph.workflow
    publishers = _publishers(graph)
    if not publishers:
        return
    after = {name: graph.after(name) - {name} for names in publishers.values() for name in names}
    for name, stage in workflow.stages.items():
        for read, key in hyperparameter_reads(name, stage, picked=False).items():
            makers = [maker for maker in publishers.get(read, ()) if name in after[maker]]
            if not makers or _searches(workflow, name, read):
                continue
            maker = makers[-1]
            several = [label for label in workflow.stages[maker].over if label not in stage.over]
            if several:
                axes = ", ".join(several)
                message = f"'{maker}' publishes '{read}' once for each {axes}, and '{name}' lacks {axes}"
                flaws.append(Flaw(message, "add the axis, or let a stage without it publish one value", key))
                continue
            output = workflow.stages[maker].publishes[read]
            given = Published(read, workflow.hyperparameters[read])
            yield Edge(key, maker, name, output, picked=_rounds(workflow, maker), published=given)


def _rounds(workflow: Workflow, maker: str) -> dict[str, str]:
    """If a stage is left out of some rounds of a loop, the last round that it ran in is read."""
    stage = workflow.stages[maker]
    if stage.when is None:
        return {}
    loops = [label for label in stage.over if label in workflow.axes and workflow.axes[label].in_turn]
    return dict.fromkeys(loops, "last")
