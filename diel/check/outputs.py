"""Checks that stages make the outputs that other stages read and that judge trials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from diel.check.flaws import Check
from diel.check.names import visible_names
from diel.errors import did_you_mean
from diel.graph.judge import place_of_name, references_of
from diel.modules.catalogue import Module
from diel.terms import SIMULATED
from diel.units import Columns, Rule, Units, UnitsError, conversions

_SCRIPT = r"files\.|(?<=[\w.-])\.(?:py|sh|bash|R|jl|pl|rb|js|lua|m|exe)\b|(?:^|\s)\.{0,2}/"
DECLARE = "declare a value that it writes to DIEL_RESULT: outputs: {{{0}: {{value: float}}}}"
_DECLARE_ANY = "declare outputs: {{{0}: PATH}}, a file or folder that it makes, or {{{0}: {{value: float}}}}"
_NO_NUMBERS = {
    "str": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "bool": "true or false",
    "None": "nothing",
}
"""Types of values, as written, that cannot rank trials."""


def check_outputs(found: Check) -> None:
    """Checks that each output that is read is one that its stage makes, if that is known."""
    for edge in found.graph.edges:
        if edge.output is None or edge.published is not None or edge.stream:
            continue
        names = visible_names(found, edge.upstream)
        known = known_outputs(found, edge.upstream)
        if known is None or edge.output in known or edge.output in names.parameters:
            continue
        if names.open_axes and not did_you_mean(edge.output, known):
            continue  # its axis may give it as a parameter
        message = f"'{edge.upstream}' makes no output '{edge.output}'"
        made, inside = (*known, *names.parameters), found.document.template_at(edge.key)
        offset = None if inside is None else place_of_name(inside.text, f"{edge.upstream}.{edge.output}")
        found.add(
            edge.key,
            message,
            _made_hint(found, edge.upstream, edge.output, made, "it has", _DECLARE_ANY),
            offset,
        )


def check_metrics(found: Check) -> None:
    """Checks that each STAGE.VALUE of `minimize`, `maximize` and `until` is made, and a number, if known.

    What a pruner watches is reported on the way and declared nowhere, so nothing is known of it.
    """
    stages = found.workflow.stages
    for label, axis in found.workflow.axes.items():
        for key, reference in references_of(label, axis):
            if "watch" in key or len(reference) != 2 or reference[0] not in stages:
                continue
            name, value = reference
            if label not in stages[name].over or found.lacks_module(name):
                continue  # which has its own message
            until = axis.condition if key[-1] == "until" else None
            wrong = _missing(found, name, value) or (None if until else _no_number(found, name, value))
            if wrong is not None:
                offset = None if until is None else place_of_name(until, f"{name}.{value}")
                found.add(key, *wrong, offset)


def _missing(found: Check, name: str, value: str) -> tuple[str, str] | None:
    stage = found.workflow.stages[name]
    if value in stage.outputs and stage.outputs[value].stream is not None:
        return f"'{value}' is a stream, not a value", "name a value that the stage makes besides it"
    known = known_outputs(found, name)
    if known is None or value in known:
        return None
    return f"'{name}' makes no value '{value}'", _made_hint(found, name, value, known, "it makes")


def _made_hint(
    found: Check, name: str, output: str, made: tuple[str, ...], it: str, declare: str = DECLARE
) -> str:
    hint = did_you_mean(output, made) or (f"{it}: {', '.join(made)}" if made else "")
    if found.workflow.stages[name].module is not None:
        return hint
    return "; or ".join(filter(None, (hint, declare.format(output))))


def _no_number(found: Check, name: str, value: str) -> tuple[str, str] | None:
    output, module = found.workflow.stages[name].outputs.get(value), found.modules.get(name)
    if module is not None:
        is_file = value in module.signature.artifacts
        kind = (module.signature.returns or {}).get(value, "")
    else:
        is_file = output is not None and output.form in ("path", "glob")
        kind = "" if output is None else output.kind or ""
    plain = "a file" if is_file else _NO_NUMBERS.get(kind.partition("[")[0].strip())
    if plain is None:
        return None
    message = f"'{value}' is {plain}; expected a number to judge trials by"
    return message, "name a value of type float or int, which the stage makes besides it"


def known_outputs(found: Check, name: str) -> tuple[str, ...] | None:
    """The outputs of a stage; None if it can make undeclared ones."""
    stage, module = found.workflow.stages[name], found.modules.get(name)
    if found.lacks_module(name):
        return None
    answered = () if stage.surrogate is None else (SIMULATED,)
    if module is not None:
        returns = module.signature.returns
        return None if returns is None else (*returns, *answered)
    words = stage.command if isinstance(stage.command, str) else " ".join(map(str, stage.command or ()))
    if "DIEL_RESULT" in words or re.search(_SCRIPT, words):
        return None  # it can write values that are not declared
    return (*stage.outputs, *answered)


class InputUse(NamedTuple):
    """Who reads data: the module of a stage and its input, and what the data is, as far as that is known."""

    input: str
    module: Module | None = None
    kind: str | None = None
    which: str | None = None
    """Which files no function gets the numbers of."""

    def refusal(self, rule: Rule, made: Units) -> tuple[str, str] | None:
        """Return why a rule cannot be followed, and what to do; None if it can.

        Values always can; files only where a Python function gets their numbers.
        """
        same, of_columns = f"write units: {_shown(made)} here", isinstance(rule, Columns)
        if self.kind in ("int", "float", "list", None):
            return ("a value has no columns", same) if of_columns and self.kind is not None else None
        if self.kind not in ("file", "array", "files"):
            return f"a {self.kind} is not converted", same
        if self.module is None or self.which is not None:
            return f"nothing converts a file {self.which}", f"{same}, and convert it in the program"
        parameters = {one.name: one.takes for one in self.module.signature.parameters}
        takes = parameters.get(self.input, frozenset({"any"}))
        if "any" in takes or takes & (_TABLES if of_columns else _ARRAYS):
            return None
        if takes & _TABLES:
            return "a table has no one unit", "say which columns, at both ends: units: {COLUMN: UNITS}"
        kind = "pandas.DataFrame" if of_columns else "numpy.ndarray"
        hint = f"{same}, or annotate '{self.input}' with {kind}"
        return "nothing converts a file that is read by its path", hint


_TABLES = {"frame", "arrow", "dataset", "frames", "arrows", "datasets"}
_ARRAYS = {"array", "arrays", "dataarray", "dataarrays"}


def unit_flaws(source: str, made: Units, wanted: Units, reader: InputUse) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with units at the two ends of an edge."""
    if made == wanted:
        return
    try:
        rule = conversions(made, wanted)
        wrong = None if rule is None else reader.refusal(rule, made)
    except UnitsError as error:
        wrong = error.message, error.hint
    if wrong is not None:
        yield f"{source} has units {_shown(made)}; expected {_shown(wanted)}: {wrong[0]}", wrong[1]


def _shown(units: Units) -> str:
    if isinstance(units, str):
        return f"'{units}'"
    return f"{{{', '.join(f'{name}: {one}' for name, one in units.items())}}}"
