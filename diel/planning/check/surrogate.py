"""Checks of surrogates: they replace simulations, answer all that is read, and learn from simulations."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from diel.base.errors import did_you_mean
from diel.base.terms import SIMULATED
from diel.base.units import differ
from diel.planning.check.names import visible_names
from diel.planning.check.violations import Check
from diel.workflow.graph import Key
from diel.workflow.graph.judge import references_of
from diel.workflow.graph.service import answered, teachers, values_of
from diel.workflow.models import Stage, Surrogate
from diel.workflow.modules.catalogue import Module


def check_surrogates(check: Check, *, whole: bool) -> None:
    """Check surrogates; their teachers only where the graph is `whole`."""
    for name, stage in check.workflow.stages.items():
        if stage.surrogate is None or stage.service is not None or check.lacks_module(name):
            continue
        module = check.modules.get(name)
        if not _check_kind(check, name, stage, module):
            continue
        names = visible_names(check, name)
        parameters = {**names.parameters, **dict.fromkeys(stage.params, "")}
        for place, label in enumerate(stage.surrogate.inputs):
            near = did_you_mean(label, parameters)
            if label not in parameters and (near or not names.open_axes):
                hint = near or f"it has: {', '.join(parameters) or 'none'}"
                key: Key = ("stages", name, "surrogate", "inputs", place)
                check.add(key, f"'{name}' has no parameter '{label}'", hint)
        outputs = _check_answered(check, name, stage, stage.surrogate, module)
        if outputs:
            _check_read(check, name, outputs)
        upstream = check.workflow.stages.get(stage.surrogate.service)
        if outputs and whole and upstream is not None and upstream.service is not None:
            _check_taught(check, name, outputs)
            sent = stage.surrogate.inputs or tuple(parameters)
            complete = bool(stage.surrogate.inputs) or not names.open_axes
            _check_columns(check, name, stage.surrogate, outputs, sent, complete=complete)


def _check_kind(check: Check, name: str, stage: Stage, module: Module | None) -> bool:
    """Check that a surrogate can stand in for this stage; return whether it can."""
    key: Key = ("stages", name, "surrogate")
    kind = stage.kind or (module.signature.kind if module is not None else None) or "analysis"
    if kind != "simulation":
        article = "an" if kind[0] in "aeiou" else "a"
        message = f"a surrogate replaces a simulation, and '{name}' is {article} {kind}"
        check.add(key, message, "drop it; or write kind: simulation")
    elif stage.joined:
        message = f"'{name}' runs beside other stages, and an answer writes nothing to a stream"
        check.add(key, message, "drop one of the two")
    else:
        return True
    return False


def _check_answered(
    check: Check, name: str, stage: Stage, surrogate: Surrogate, module: Module | None
) -> tuple[str, ...]:
    """Return the outputs that a surrogate answers; none if something is wrong with them."""
    here: Key = ("stages", name, "surrogate")
    signature = None if module is None else module.signature
    values = values_of(stage, signature)
    if SIMULATED in (values or ()) or SIMULATED in stage.outputs:
        message = f"'{SIMULATED}' says for each task of such a stage whether it was computed"
        check.add(here, message, "give the stage's own output another name")
        return ()
    outputs = answered(stage, signature)
    if not outputs:
        offer = "" if not values else f": it makes {', '.join(values)}"
        message = f"which value of '{name}' is answered is not known{offer}"
        check.add(here, message, f"write outputs: [{next(iter(values or ()), 'NAME')}]")
        return ()
    flaws = dict(_unanswerable(stage, module, outputs, values))
    for label, (message, hint) in flaws.items():
        named = label in surrogate.outputs
        key = (*here, "outputs", surrogate.outputs.index(label)) if named else here
        check.add(key, message, hint)
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


def _check_read(check: Check, name: str, outputs: tuple[str, ...]) -> None:
    there = (*outputs, SIMULATED)
    own = visible_names(check, name).parameters
    read = [(edge.key, edge.output) for edge in check.graph.out_of(name)]
    read = [(key, output) for key, output in read if output not in own]
    for label, axis in check.workflow.axes.items():
        for key, reference in references_of(label, axis):
            read += [(key, reference[1])] if len(reference) == 2 and reference[0] == name else []
    for key, output in read:
        if output is not None and output not in there:
            message = f"{name}.{output} is missing for tasks that the surrogate answers; it answers: "
            hint = f"read one of these, or drop the surrogate of '{name}'"
            check.add(key, message + ", ".join(outputs), hint)


def _check_taught(check: Check, name: str, outputs: tuple[str, ...]) -> None:
    """Check that a model does not learn from its own answers."""
    for teacher in teachers(check.graph, name).names:
        read = [edge for edge in check.graph.into(teacher) if edge.upstream == name]
        own = [edge for edge in read if edge.output in outputs]
        if own and all(edge.output != SIMULATED for edge in read):
            output = f"{name}.{own[0].output}"
            hint = f"read {name}.{SIMULATED} too, and learn only where it is true"
            if own[0].gathered:
                hint = f"select what was simulated: ${{{{ where({output}, {name}.{SIMULATED}) }}}}"
            message = f"'{teacher}' would teach the model its own answers: {output} holds them too"
            check.add(own[0].key, message, hint)


def _check_columns(
    check: Check,
    name: str,
    surrogate: Surrogate,
    outputs: tuple[str, ...],
    sent: tuple[str, ...],
    *,
    complete: bool,
) -> None:
    """Check that a model knows the columns of its questions, if its training names those that it learned.
    `complete`: whether the columns of the questions are all known."""
    here: Key = ("stages", name, "surrogate")
    model = surrogate.service
    trainings = [edge.upstream for edge in check.graph.into(model) if edge.output is not None]
    for training in dict.fromkeys(trainings):
        features, target = _learned(check.workflow.stages[training].params)
        lacking = [feature for feature in features if feature not in sent]
        if lacking and complete:
            where = (*here, "inputs" if surrogate.inputs else "service")
            message = f"the model of '{model}' reads '{lacking[0]}' ('{training}' says so)"
            hint = f"sent are: {', '.join(sent) or 'none'}"
            check.add(where, f"{message}, which is not sent", hint)
            return
        if target is not None and target not in outputs:
            where = (*here, "outputs" if surrogate.outputs else "service")
            message = f"the model of '{model}' predicts '{target}' ('{training}' says so), and is "
            check.add(where, f"{message}asked for {', '.join(outputs)}", f"write outputs: [{target}]")
            return
        if target is not None:
            _check_learned_units(check, name, training, target)


def _check_learned_units(check: Check, name: str, training: str, target: str) -> None:
    """Check that a model learns its target in the units that the stage declares, where both are known."""
    own, inputs = check.workflow.units_of(name, target), check.workflow.stages[training].inputs
    for edge in check.graph.into(training):
        units = inputs[edge.name].units if edge.name else None
        units = units or check.workflow.units_of(edge.upstream, str(edge.output))
        taught = units.get(target) if isinstance(units, Mapping) else units if edge.output == target else None
        if isinstance(own, str) and taught and differ(own, taught):
            message = f"'{name}' declares '{target}' in '{own}', and its model learns it in '{taught}'"
            hint = f"let '{training}' read {edge.upstream}.{edge.output} in the same units"
            check.add(("stages", name, "outputs", target, "units"), message, hint)


def _learned(params: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None]:
    """Return the features and the target that a training's parameters name; empty if they do not."""
    target, features, columns = params.get("target"), params.get("features"), params.get("columns")
    if not isinstance(target, str) or "${{" in target:
        return (), None
    if isinstance(features, list | tuple):
        named = [feature for feature in features if isinstance(feature, str) and "${{" not in feature]
        return tuple(named), target
    if isinstance(columns, dict):
        return tuple(label for label in columns if label != target), target
    return (), target
