"""Checks of what stages read from each other: the output is one that the other stage makes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from diel.check.flaws import Check
from diel.check.names import visible_names
from diel.errors import did_you_mean
from diel.graph import StageGraph
from diel.modules.catalogue import Module
from diel.spec import Stage
from diel.terms import SIMULATED

_SCRIPT = re.compile(r"files\.|(?<=[\w.-])\.(?:py|sh|bash|R|jl|pl|rb|js|lua|m|exe)\b|(?:^|\s)\.{0,2}/")


def check_outputs(found: Check, graph: StageGraph, modules: Mapping[str, Module]) -> None:
    """Every output that is read is one that its stage makes, as far as that can be known."""
    for edge in graph.edges:
        if edge.output is None or edge.published is not None or edge.stream:
            continue
        stage = found.workflow.stages[edge.upstream]
        names = visible_names(found, edge.upstream)
        module = modules.get(edge.upstream)
        if stage.module is not None and module is None:
            continue  # it was not found, which is told already
        known = known_outputs(stage, module)
        if known is None or edge.output in known or edge.output in names.parameters:
            continue
        if names.open_axes and not did_you_mean(edge.output, known):
            continue  # its axis may give it as a parameter
        made = [*known, *names.parameters]
        hint = did_you_mean(edge.output, made) or (f"it has: {', '.join(made)}" if made else "")
        if stage.module is None:
            value = f"outputs: {{{edge.output}: {{value: float}}}}"
            declare = f"declare a value that it writes to DIEL_RESULT: {value}"
            hint = f"{hint}; or {declare}" if hint else declare
        found.add(edge.key, f"'{edge.upstream}' makes no output '{edge.output}'", hint)


def check_published(found: Check, modules: Mapping[str, Module]) -> None:
    """What stages publish are values that they make, as far as that can be known."""
    for name, stage in found.workflow.stages.items():
        module = modules.get(name)
        if stage.module is not None and module is None:
            continue
        known = known_outputs(stage, module)
        for label, output in stage.publishes.items():
            key = ("stages", name, "publishes", label)
            if output in stage.outputs and stage.outputs[output].form not in (None, "value"):
                hint = (
                    f"declare a value that it writes to DIEL_RESULT: outputs: {{{output}: {{value: float}}}}"
                )
                what = "stream" if stage.outputs[output].stream is not None else "file"
                found.add(key, f"'{output}' is a {what}, and a hyperparameter has a value", hint)
            elif known is not None and output not in known:
                hint = did_you_mean(output, known) or (f"it makes: {', '.join(known)}" if known else "")
                found.add(key, f"'{name}' makes no value '{output}'", hint)


def known_outputs(stage: Stage, module: Module | None) -> tuple[str, ...] | None:
    """The outputs of a stage; None where it may make others than are written down."""
    told = () if stage.surrogate is None else (SIMULATED,)
    if module is not None:
        returns = module.signature.returns
        return None if returns is None else (*returns, *told)
    words = stage.command if isinstance(stage.command, str) else " ".join(map(str, stage.command or ()))
    if "DIEL_RESULT" in words or _SCRIPT.search(words):
        return None  # it may write values that are not declared
    return (*stage.outputs, *told)
