"""Checks of surrogates: they stand for simulations, answer what is read, and learn from simulations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from diel.check.flaws import Check
from diel.check.names import Names, visible_names
from diel.errors import did_you_mean
from diel.graph import Edge, Key, StageGraph
from diel.graph.judge import references_of
from diel.graph.surrogate import answered, teachers, values_of
from diel.modules.catalogue import Module
from diel.spec import Stage, Surrogate
from diel.terms import SIMULATED


def check_surrogates(found: Check, graph: StageGraph, modules: Mapping[str, Module], *, whole: bool) -> None:
    """Everything about surrogates that can be known before a run.

    `whole` tells whether the graph has no cycle: only then can it be told who teaches a model.
    """
    for name, stage in found.workflow.stages.items():
        if stage.surrogate is None or stage.service is not None:
            continue
        module = modules.get(name)
        if stage.module is not None and module is None:
            continue  # it was not found, which is told already
        if not _check_kind(found, name, stage, module):
            continue
        _check_inputs(found, name, stage.surrogate, _parameters(found, name, module))
        outputs = _check_answered(found, name, stage, module)
        if outputs:
            _check_read(found, graph, name, outputs)
        upstream = found.workflow.stages.get(stage.surrogate.service)
        if outputs and whole and upstream is not None and upstream.service is not None:
            _check_taught(found, graph, name, outputs)
            _check_columns(found, graph, name, outputs, _parameters(found, name, module))


def _check_kind(found: Check, name: str, stage: Stage, module: Module | None) -> bool:
    """Whether a stage is one that a surrogate can stand for."""
    key: Key = ("stages", name, "surrogate")
    kind = stage.kind or (module.signature.kind if module is not None else None) or "analysis"
    streams = [label for label, output in stage.outputs.items() if output.stream is not None]
    if kind != "simulation":
        article = "an" if kind[0] in "aeiou" else "a"
        message = f"a surrogate stands for a simulation, and '{name}' is {article} {kind}"
        found.add(key, message, "drop it; or write kind: simulation")
    elif streams or stage.beside:
        told = f"'{name}' runs beside other stages" if stage.beside else f"'{streams[0]}' is a stream"
        found.add(key, f"{told}, and an answer puts nothing into a stream", "drop one of the two")
    else:
        return True
    return False


# --- what is asked --------------------------------------------------------------------------------


def _parameters(found: Check, name: str, module: Module | None) -> Names:
    """The names that a task's question may hold."""
    names = visible_names(found, name)
    own = dict.fromkeys(found.workflow.stages[name].params, "")
    return Names({**names.parameters, **own}, names.open_axes, {})


def _check_inputs(found: Check, name: str, surrogate: Surrogate, names: Names) -> None:
    for place, label in enumerate(surrogate.inputs):
        near = did_you_mean(label, names.parameters)
        if label in names.parameters or (names.open_axes and not near):
            continue
        key: Key = ("stages", name, "surrogate", "inputs", place)
        hint = near or f"it has: {', '.join(names.parameters) or 'none'}"
        found.add(key, f"'{name}' has no parameter '{label}'", hint)


# --- what is answered -----------------------------------------------------------------------------


def _check_answered(found: Check, name: str, stage: Stage, module: Module | None) -> tuple[str, ...]:
    """The outputs that are answered; nothing where there is something wrong with them."""
    assert stage.surrogate is not None
    here: Key = ("stages", name, "surrogate")
    values = values_of(stage, None if module is None else module.signature)
    if SIMULATED in (values or ()) or SIMULATED in stage.outputs:
        message = f"'{SIMULATED}' tells of each task of such a stage whether it was computed"
        found.add(here, message, "give the stage's own output another name")
        return ()
    outputs = answered(stage, None if module is None else module.signature)
    if not outputs:
        known = "" if not values else f": it makes {', '.join(values)}"
        message = f"which value of '{name}' is answered is not known{known}"
        found.add(here, message, f"write outputs: [{next(iter(values or ()), 'NAME')}]")
        return ()
    flaws = dict(_unanswerable(stage, module, outputs, values))
    for label, (message, hint) in flaws.items():
        place = stage.surrogate.outputs.index(label) if label in stage.surrogate.outputs else None
        found.add(here if place is None else (*here, "outputs", place), message, hint)
    return () if flaws else outputs


def _unanswerable(
    stage: Stage, module: Module | None, outputs: Collection[str], values: Mapping[str, str] | None
) -> Iterator[tuple[str, tuple[str, str]]]:
    files = [name for name, output in stage.outputs.items() if output.form in ("path", "glob")]
    files += [] if module is None else module.signature.artifacts
    for label in outputs:
        kind = "" if values is None else values.get(label, "").partition("[")[0]
        if label in files:
            yield label, (f"'{label}' is a file, and a surrogate answers numbers", "name a value instead")
        elif values is not None and label not in values:
            hint = did_you_mean(label, values) or f"it makes: {', '.join(values) or 'none'}"
            yield label, (f"the stage makes no value '{label}'", hint)
        elif kind in ("int", "str", "bool", "list", "dict"):
            message = f"'{label}' is of type {kind}, and a surrogate answers numbers of type float"
            yield label, (message, "name another, or make it a float")


def _check_read(found: Check, graph: StageGraph, name: str, outputs: tuple[str, ...]) -> None:
    """What is read of the stage is what is there for every task."""
    names = visible_names(found, name)
    there = (*outputs, SIMULATED)
    known = ", ".join(outputs)
    for edge in graph.out_of(name):
        if edge.output is not None and edge.output not in (*there, *names.parameters):
            found.add(edge.key, *_unread(name, edge.output, known))
    for label, axis in found.workflow.axes.items():
        for key, reference in references_of(label, axis):
            if len(reference) == 2 and reference[0] == name and reference[1] not in there:
                found.add(key, *_unread(name, reference[1], known))


def _unread(name: str, output: str, known: str) -> tuple[str, str]:
    message = f"{name}.{output} is not there for tasks that the surrogate answers; it answers: {known}"
    return message, f"read one of these, or drop the surrogate of '{name}'"


# --- who teaches it -------------------------------------------------------------------------------


def _check_taught(found: Check, graph: StageGraph, name: str, outputs: tuple[str, ...]) -> None:
    """What teaches the model is told apart from what the model has said itself."""
    for teacher in teachers(graph, name).names:
        read = [edge for edge in graph.into(teacher) if edge.upstream == name]
        if any(edge.output == SIMULATED for edge in read):
            continue
        for edge in read:
            if edge.output in outputs:
                found.add(edge.key, *_own_words(name, teacher, edge))
                break


def _own_words(name: str, teacher: str, edge: Edge) -> tuple[str, str]:
    output = f"{name}.{edge.output}"
    message = f"'{teacher}' would teach the model its own answers: {output} holds them as well"
    if edge.gathered:
        return message, f"take what was simulated: ${{{{ where({output}, {name}.{SIMULATED}) }}}}"
    return message, f"read {name}.{SIMULATED} too, and learn only where it is true"


def _check_columns(
    found: Check, graph: StageGraph, name: str, outputs: tuple[str, ...], names: Names
) -> None:
    """The model knows the columns that it is asked about, as far as its training says which it learned."""
    surrogate = found.workflow.stages[name].surrogate
    assert surrogate is not None
    sent = surrogate.inputs or tuple(names.parameters)
    whole = bool(surrogate.inputs) or not names.open_axes
    trainings = [edge.upstream for edge in graph.into(surrogate.service) if edge.output is not None]
    for training in dict.fromkeys(trainings):
        features, target = _learned(found.workflow.stages[training].params)
        lacking = [feature for feature in features if feature not in sent]
        here: Key = ("stages", name, "surrogate")
        if lacking and whole:
            where = (*here, "inputs") if surrogate.inputs else (*here, "service")
            message = f"the model of '{surrogate.service}' reads '{lacking[0]}' ('{training}' says so)"
            told = f"{message}, which is not sent"
            found.add(where, told, f"sent are: {', '.join(sent) or 'none'}")
            return
        if target is not None and target not in outputs:
            message = f"the model of '{surrogate.service}' predicts '{target}' ('{training}' says so)"
            where = (*here, "outputs") if surrogate.outputs else (*here, "service")
            found.add(
                where, f"{message}, and is asked for {', '.join(outputs)}", f"write outputs: [{target}]"
            )
            return


def _learned(params: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None]:
    """The features and the target that a training's parameters name; nothing where they do not."""
    target, features, columns = params.get("target"), params.get("features"), params.get("columns")
    if not isinstance(target, str) or "${{" in target:
        return (), None
    if isinstance(features, list | tuple):
        named = [feature for feature in features if isinstance(feature, str) and "${{" not in feature]
        return tuple(named), target
    if isinstance(columns, dict):
        return tuple(label for label in columns if label != target), target
    return (), target
