"""Checks of what searches and loops are judged by: the stage makes that value, and it is a number."""

from __future__ import annotations

from collections.abc import Mapping

from diel.check.flaws import Check
from diel.check.outputs import known_outputs
from diel.errors import did_you_mean
from diel.graph.judge import place_of_name, references_of
from diel.modules.catalogue import Module
from diel.spec import Stage

_NO_NUMBERS = {
    "str": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "bool": "true or false",
    "None": "nothing",
}
"""Types of values, as written, by which no two trials can be told apart as better and worse."""


def check_metrics(found: Check, modules: Mapping[str, Module]) -> None:
    """Every STAGE.VALUE of `minimize`, `maximize` and `until`, as far as can be known before a run.

    What a pruner watches is reported on the way and declared nowhere, so nothing is known of it.
    """
    workflow = found.workflow
    for label, axis in workflow.axes.items():
        for key, reference in references_of(label, axis):
            if "watch" in key or len(reference) != 2 or reference[0] not in workflow.stages:
                continue
            name, value = reference
            stage, module = workflow.stages[name], modules.get(name)
            if label not in stage.over or (stage.module is not None and module is None):
                continue  # which is told already
            until = key[-1] == "until"
            wrong = _missing(name, value, stage, module)
            if wrong is None and not until:
                wrong = _no_number(value, stage, module)
            if wrong is not None:
                text = axis.condition if until else None
                found.add(key, *wrong, None if text is None else place_of_name(text, f"{name}.{value}"))


def _missing(name: str, value: str, stage: Stage, module: Module | None) -> tuple[str, str] | None:
    """What is wrong where a stage does not make a value, and a hint."""
    if value in stage.outputs and stage.outputs[value].stream is not None:
        return f"'{value}' is a stream, and no value", "name a value that the stage makes beside it"
    known = known_outputs(stage, module)
    if known is None or value in known:
        return None
    hint = did_you_mean(value, known) or (f"it makes: {', '.join(known)}" if known else "")
    if module is None:
        declare = f"declare a value that it writes to DIEL_RESULT: outputs: {{{value}: {{value: float}}}}"
        hint = f"{hint}; or {declare}" if hint else declare
    return f"'{name}' makes no value '{value}'", hint


def _no_number(value: str, stage: Stage, module: Module | None) -> tuple[str, str] | None:
    """What is wrong where a value cannot be made small or large, and a hint."""
    kind: str | None = None
    if module is None:
        output = stage.outputs.get(value)
        is_file = output is not None and output.form in ("path", "glob")
        kind = None if output is None else output.value
    else:
        is_file = value in module.signature.artifacts
        kind = (module.signature.returns or {}).get(value)
    plain = "a file" if is_file else _NO_NUMBERS.get((kind or "").partition("[")[0].strip())
    if plain is None:
        return None
    message = f"'{value}' is {plain}; expected a number to judge trials by"
    return message, "name a value of type float or int, which the stage makes beside it"
