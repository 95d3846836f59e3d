"""Edges from a service to those that ask it, and the edges that bring it newer inputs."""

from collections.abc import Iterator
from typing import NamedTuple

from diel.base.errors import did_you_mean
from diel.streams.services import REPLICA
from diel.streams.services.endpoint import variable_of
from diel.workflow.graph.judge import judge_of, late_stages
from diel.workflow.graph.stage_graph import Edge, StageGraph, reach
from diel.workflow.models import Stage, Violation, Workflow
from diel.workflow.models.model import Key
from diel.workflow.modules.signature import Signature


def service_uses(stage: Stage, name: str) -> Iterator[Edge]:
    """Yield the services that a stage asks: those that it names, and the one of its surrogate."""
    for number, other in enumerate(stage.services):
        yield Edge(("stages", name, "services", number), other, name, service=True)
    for other in stage.asks[len(stage.services) :]:
        yield Edge(("stages", name, "surrogate", "service"), other, name, service=True, optional=True)


def check_service(workflow: Workflow, use: Edge) -> list[Violation]:
    """Check that a service is asked, not read, and that stages that ask it run over all of its axes."""
    upstream, reader = workflow.stages[use.upstream], workflow.stages[use.downstream]
    if use.service and upstream.service is None:
        other = use.upstream
        hint = f"add `service: true` to '{other}', or read what it makes by `inputs`, wait for it by `after`"
        return [Violation(f"'{other}' is not a service", hint, use.key)]
    if not use.service:
        return _read_flaws(use, upstream, reader)
    lacking = [label for label in upstream.over if label not in reader.over]
    if lacking:
        hint = f"add {', '.join(lacking)} to the stage's `over`, or take it out of the service's"
        axes = " × ".join(lacking)
        unsaid = f"and '{use.downstream}' does not say which one it asks"
        return [Violation(f"'{use.upstream}' has a service for each {axes}, {unsaid}", hint, use.key)]
    return []


def _read_flaws(use: Edge, upstream: Stage, reader: Stage) -> list[Violation]:
    if upstream.service is not None:
        hint = f"ask it while it runs: services: [{use.upstream}]"
        what = "nothing to read" if use.output is not None else "no end to wait for"
        return [Violation(f"'{use.upstream}' is a service, and has {what}", hint, use.key)]
    if use.begun and not (use.follows or is_renewed(reader, use)):
        hint = "write `previous`, or drop `initially`; a service with `reload: true` may have both"
        return [
            Violation(
                "`initially` is the value before the first round of a loop", hint, (*use.key, "initially")
            )
        ]
    return []


def is_renewed(reader: Stage, use: Edge) -> bool:
    """Return whether a loop replaces an input of a running service with newer ones."""
    reloads = reader.service is not None and reader.service.reload is not None
    return reloads and use.name is not None and any(choice.word == "last" for choice in use.chosen.values())


def check_services(graph: StageGraph) -> Iterator[Violation]:
    """Check that services have consumers, and that their names do not clash."""
    workflow = graph.workflow
    called = {edge.upstream for edge in graph.edges if edge.service}
    for name, stage in workflow.stages.items():
        if stage.service is not None and name not in called:
            hint = f"add services: [{name}] to the stages that ask it"
            yield Violation(f"no stage asks the service '{name}'", hint, ("stages", name, "service"))
        if stage.service is not None and REPLICA in stage.over:
            key: Key = ("stages", name, "over", stage.over.index(REPLICA))
            yield Violation(f"a service has an axis '{REPLICA}' of its own", "rename the axis", key)
        owners: dict[str, str] = {}
        for number, other in enumerate(stage.services):
            before = owners.setdefault(variable_of(other), other)
            if before != other:
                message = f"'{before}' and '{other}' share the variable {variable_of(other)}_URL"
                yield Violation(message, "rename one of them", ("stages", name, "services", number))
        if stage.service and stage.service.reload and not any(edge.renewed for edge in graph.into(name)):
            hint = "read one from a loop: inputs: {model: {from: train.model, at: {round: last}}}; or drop it"
            yield Violation("nothing makes newer inputs for it", hint, ("stages", name, "service", "reload"))
        yield from _turn_flaws(graph, name)


def _turn_flaws(graph: StageGraph, name: str) -> Iterator[Violation]:
    """Check that a service takes what one loop makes, and that tasks ask it in the order of its rounds."""
    workflow, over = graph.workflow, graph.workflow.stages[name].over
    axes = [label for label, axis in workflow.axes.items() if axis.adaptive]
    for edge in graph.into(name):
        if edge.renewed and len(edge.chosen) > 1:
            hint = "let a stage over the loop pick from the others, and take what that makes"
            message = f"newer inputs come from one loop alone, not by {' and '.join(edge.chosen)}"
            yield Violation(message, hint, edge.key)
    asked = ((use, edge) for use in graph.into(name) if use.service for edge in graph.into(use.upstream))
    turns = {(use.upstream, *edge.chosen): (use, edge) for use, edge in asked if edge.renewed}
    for (service, label, *picks), (use, edge) in turns.items():
        if picks or label not in over or name in late_stages(graph, label, edge.upstream):
            continue
        others = [other for other in axes if other in over and other not in (label, *edge.matched)]
        for other in others:
            judge = judge_of(workflow, other)
            if label not in judge.context and (judge.stages or any(other in turn[1:] for turn in turns)):
                message = (
                    f"'{service}' gets newer inputs in the order of {label}, and what '{name}' asks it "
                    f"at other points of {other} does not come in that order"
                )
                hint = f"leave {other} out of its `over`, or run '{service}' over {other} too"
                yield Violation(message, hint, use.key)


def nearest_service(workflow: Workflow, name: str) -> str:
    """Return the hint for a stage that asks a missing service."""
    services = [other for other, stage in workflow.stages.items() if stage.service is not None]
    return did_you_mean(name, services) or f"services: {', '.join(services) or 'none'}"


def answered(stage: Stage, signature: Signature | None) -> tuple[str, ...]:
    """Return the outputs that a stage's surrogate names, else the only value, if that is known."""
    if stage.surrogate is None or stage.surrogate.outputs:
        return () if stage.surrogate is None else stage.surrogate.outputs
    values = values_of(stage, signature)
    return tuple(values) if values is not None and len(values) == 1 else ()


def values_of(stage: Stage, signature: Signature | None) -> dict[str, str] | None:
    """Return the values that a stage makes, each with its type as written; None if not written."""
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
    """Stages that simulate as the stage itself does: a first training set."""


def teachers(graph: StageGraph, name: str) -> Teachers:
    """Find the stages that teach the surrogate of a stage."""
    stage = graph.workflow.stages[name]
    assert stage.surrogate is not None
    service = stage.surrogate.service

    def data(reader: str) -> Iterator[str]:
        for edge in graph.into(reader):
            if (edge.output is not None or edge.hyperparameter is not None) and edge.upstream != name:
                yield edge.upstream

    ancestors = reach([service], data)[1:]
    names = tuple(other for other in graph.order if other in ancestors)
    what = stage.module, stage.command
    stages = graph.workflow.stages
    alike = tuple(other for other in names if (stages[other].module, stages[other].command) == what)
    return Teachers(names, alike)
