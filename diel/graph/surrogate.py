"""What a stage's surrogate answers, and which stages teach it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from diel.graph.stage_graph import StageGraph, reach
from diel.modules.signature import Signature
from diel.spec import Stage


def answered(stage: Stage, signature: Signature | None) -> tuple[str, ...]:
    """The outputs that a stage's surrogate answers: those that it names, else the stage's only value.

    `signature` is that of its module. Nothing where neither tells.
    """
    if stage.surrogate is None or stage.surrogate.outputs:
        return () if stage.surrogate is None else stage.surrogate.outputs
    values = values_of(stage, signature)
    return tuple(values) if values is not None and len(values) == 1 else ()


def values_of(stage: Stage, signature: Signature | None) -> dict[str, str] | None:
    """The values that a stage makes, each with its type as written; None if not written."""
    if stage.module is None:
        return {name: kind for name, output in stage.outputs.items() if (kind := output.kind) is not None}
    if signature is None or signature.returns is None:
        return None
    return {name: kind for name, kind in signature.returns.items() if name not in signature.artifacts}


class Teachers(NamedTuple):
    """The stages whose results reach a surrogate without passing through its own stage."""

    names: tuple[str, ...]
    """In the order in which they run."""
    simulations: tuple[str, ...]
    """Those that simulate as the stage itself does: a first training set."""


def teachers(graph: StageGraph, name: str) -> Teachers:
    """Who teaches the surrogate of a stage."""
    stage = graph.workflow.stages[name]
    assert stage.surrogate is not None
    asked = stage.surrogate.service

    def data(reader: str) -> Iterator[str]:
        for edge in graph.into(reader):
            if (edge.output is not None or edge.hyperparameter is not None) and edge.upstream != name:
                yield edge.upstream

    found = reach([asked], data)[1:]
    names = tuple(other for other in graph.order if other in found)
    what = stage.module, stage.command
    stages = graph.workflow.stages
    alike = tuple(other for other in names if (stages[other].module, stages[other].command) == what)
    return Teachers(names, alike)
