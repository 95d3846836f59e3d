"""Checks of stages with Python modules: these are there, and parameters fit their signatures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from diel.check.environment import brings_packages
from diel.check.flaws import Check
from diel.check.names import Names
from diel.check.points import check_points
from diel.expressions import ExpressionError, parse_tree
from diel.graph import Key
from diel.graph.gang import stream_inputs
from diel.modules.catalogue import ModuleNotFound, NotInstalled, again, find, search_path, unread
from diel.modules.sources import SourceVersion


def find_modules(found: Check, folder: Path, cwd: Path, sources: SourceVersion | None = None) -> None:
    """Finds the module of each stage; `folder` is the workflow's, `sources` what a run keeps."""
    named = {name: stage.module for name, stage in found.workflow.stages.items() if stage.module is not None}
    folders = search_path(folder, cwd)
    seek = cache(find)  # many stages may run one function
    for name, module in named.items():
        home, stage = found.document.home(("stages", name, "module")), found.workflow.stages[name]
        try:
            if sources is not None and name in sources.modules:
                made = again(sources.modules[name], sources)
            else:
                made = seek(module, folders if home is None else (home / "modules", *folders))
            if made.packaged and brings_packages(found.workflow, stage):
                made = unread(module)
        except ModuleNotFound as error:
            if not (stage.is_surrounded and isinstance(error, NotInstalled)):
                found.add(("stages", name, "module"), error.message, error.hint)
                continue
            made = unread(module)
        declared = [label for label, output in stage.outputs.items() if output.form is None]
        found.modules[name] = made._replace(signature=made.signature.named(declared))


def check_module(found: Check, name: str, names: Names, hyperparameters: Mapping[str, Any]) -> None:
    """Names, types and bounds of what a stage gives its module."""
    stage, module = found.workflow.stages[name], found.modules[name]
    here: Key = ("stages", name)
    given, deferred = _given(found, name, hyperparameters)
    takes = {parameter.name for parameter in module.signature.parameters}
    if names.open_axes:  # its points can give any parameter
        deferred |= takes
    for label in names.parameters:
        if label in takes - given.keys():
            deferred.add(label)
            given[label] = None
    for wrong, message, hint in module.signature.check(given, deferred):
        found.add(_place(found, name, wrong, names), message, hint)
    check_points(found, name, names, hyperparameters)
    for label in stage.inputs.keys() & stage.params.keys():
        found.add((*here, "inputs", label), f"'{label}' is in `params` too", "rename one of them")
    communicators = [p for p in module.signature.parameters if p.injected == "communicator"]
    if communicators and communicators[0].required and not stage.resources.mpi:
        message = f"'{module.reference}' needs MPI ranks for its parameter '{communicators[0].name}'"
        found.add((*here, "module"), message, "add `resources: {ranks: 2}`")


def _given(found: Check, name: str, hyperparameters: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    stage, searched = found.workflow.stages[name], found.searched(name)
    given: dict[str, Any] = {}
    deferred: set[str] = set()
    for label, value in stage.params.items():
        given[label] = value
        try:
            tree = parse_tree(value)
            if any(chain[0] != "hp" or chain[1] in searched for chain in tree.references):
                deferred.add(label)
            else:
                given[label] = tree.value({"hp": hyperparameters})
                if given[label] is None and not tree.constant:
                    deferred.add(label)  # a hyperparameter without a default
        except (ExpressionError, IndexError):
            deferred.add(label)
    for label in stage.inputs.keys() - stream_inputs(found.workflow, name):
        source = stage.inputs[label].source.removeprefix("hp.")
        given.setdefault(label, hyperparameters.get(source))
        if given[label] is None or source == stage.inputs[label].source or source in searched:
            deferred.add(label)
    return given, deferred


def _place(found: Check, name: str, label: str | None, names: Names) -> Key:
    stage = found.workflow.stages[name]
    if label in stage.params:
        return ("stages", name, "params", str(label))
    if label in stage.inputs:
        return ("stages", name, "inputs", str(label))
    if label in names.parameters:
        return ("axes", names.parameters[str(label)])
    return ("stages", name, "params") if stage.params else ("stages", name, "module")
