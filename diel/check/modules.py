"""Checks of stages with Python modules: these are there, and parameters fit their signatures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from diel.check.environment import brings_packages
from diel.check.flaws import Check
from diel.check.known import Axes, Known, Place
from diel.check.names import Names
from diel.expressions import ExpressionError, Template, Tree, parse_expression, parse_tree
from diel.graph import Key
from diel.graph.gang import stream_inputs
from diel.graph.uses import expression_references
from diel.modules.catalogue import ModuleNotFound, NotInstalled, again, find, search_path, unread
from diel.modules.parameter import Parameter, hint
from diel.modules.sources import SourceVersion
from diel.spec import Hyperparameter
from diel.spec.forms.axis import Points
from diel.spec.forms.sample import Sample
from diel.spec.forms.written import Inline
from diel.values import point_text


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
    for wrong, message, advice in module.signature.check(given, deferred):
        found.add(_place(found, name, wrong, names), message, advice)
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


_BATCH = 2_000
"""Values that are held to a type together."""
_CHOICES = 100
"""The most choices of a search to look at."""
_NAME = re.compile(r"\$\{\{\s*(\w+)\s*\}\}")


class _Evaluation(NamedTuple):
    """What expressions of a stage can read before the run, and the condition of its tasks."""

    known: Known
    when: Template | None

    def values(self, tree: Tree, axes: Axes, places: Iterable[Place]) -> Iterator[tuple[Place, Any]]:
        """Yield the value at each place whose task is wanted."""
        for place in places:
            scope = self.known.scope(axes, place)
            try:
                if self.when is None or self.when.value(scope):
                    yield place, tree.value(scope)
            except ExpressionError:
                continue  # for example, a division by zero, which its task will tell


def check_points(found: Check, name: str, names: Names, hyperparameters: Mapping[str, Any]) -> None:
    """Hold what a module takes to its annotations: at each point of an axis, in large products at their
    corners and at points evenly spread, and only where tasks are wanted."""
    stage, signature = found.workflow.stages[name], found.modules[name].signature
    points = {label: made for label in stage.over if (made := _points(found, label)) is not None}
    for one in sorted(found.searched(name) & set(found.workflow.hyperparameters)):
        points[f"hp.{one}"] = Points((f"hp.{one}",), (_ends(found.workflow.hyperparameters[one]),))
    if not points or signature.loose or stage.when is False:
        return
    given = Known.of(found, name, hyperparameters).hyperparameters
    known = Known(points, {label: value for label, value in given.items() if value is not None})
    try:
        when = parse_expression(stage.when) if isinstance(stage.when, str) else None
    except ExpressionError:
        return  # which is told at its own place
    read, gates = _Evaluation(known, when), {} if when is None else known.axes(when.references)
    for parameter in signature.parameters if gates is not None else ():
        label = parameter.name
        own = label not in stage.params and label not in stage.inputs and label in names.parameters
        if parameter.injected or not (own or label in stage.params):
            continue
        written = f"${{{{ {label} }}}}" if own else stage.params[label]
        try:
            tree = parse_tree(written)
        except ExpressionError:
            continue
        if axes := known.axes(tree.references):
            over = {one: points[one].parameters for one in points if one in axes or one in (gates or ())}
            wrong = _first_wrong(read, parameter, written, over)
            if wrong is not None:
                place, value, message = wrong
                first = next(iter(axes))
                key = _point_key(found, first, label, place[[*over].index(first)]) if own else None
                scope = known.scope(over, place)
                drawn = [one for one in over if one.startswith("hp.")]
                at = {one: scope[one] for one in (*names.parameters, *drawn) if one in scope}
                message = f"'{label}' at {point_text(at)}: {message}"
                told = f"a search draws {drawn[0]}: narrow it to what fits" if drawn else hint(message, value)
                found.add(key or ("stages", name, "params", label), message, told)


def _ends(given: Hyperparameter) -> tuple[Any, ...]:
    """What a search can draw at most, or the first of its choices."""
    if given.type in ("choice", "bool"):
        return (given.listed or ())[:_CHOICES]
    kind = int if given.type == "int" else float
    return tuple(kind(end) for end in (given.low, given.high) if end is not None)


def check_designs(found: Check) -> None:
    """Check that what is drawn for a hyperparameter is read: `hp.NAME` keeps its one value in all tasks."""
    for label, axis in found.workflow.axes.items():
        if not isinstance(axis, Sample) or not isinstance(axis.parameters, tuple):
            continue
        stages = [name for name, stage in found.workflow.stages.items() if label in stage.over]
        for place, name in enumerate(axis.parameters):
            shared = [key for stage in stages for key in _shared_reads(found, stage, label, name)]
            for key in shared:
                message = f"hp.{name} is the same in all tasks, and axis '{label}' draws '{name}'"
                found.add(key, message, f"write ${{{{ {name} }}}}")
            commands = any(found.workflow.stages[one].command is not None for one in stages)  # by DIEL_PARAMS
            if not shared and not commands and not any(_reads_drawn(found, s, label, name) for s in stages):
                message = f"no stage reads '{name}', so that what is drawn changes nothing"
                found.add(("axes", label, "sample", "parameters", place), message, f"read ${{{{ {name} }}}}")


def _shared_reads(found: Check, stage: str, label: str, name: str) -> list[Key]:
    """Where a stage reads a hyperparameter instead of what is drawn for it."""
    here: Key = ("stages", stage)
    spec = found.workflow.stages[stage]
    keys = [key for key, read in expression_references(here, spec) if read == ("hp", name)]
    keys += [(*here, "inputs", key) for key, given in spec.inputs.items() if given.source == f"hp.{name}"]
    return [] if _reads_drawn(found, stage, label, name) else keys[:1]


def _reads_drawn(found: Check, stage: str, label: str, name: str) -> bool:
    spec = found.workflow.stages[stage]
    module = found.modules.get(stage)
    if module is not None and name not in (*spec.params, *spec.inputs):
        signature = module.signature
        if signature.loose or signature.variadic or name in (one.name for one in signature.parameters):
            return True
    if any(edge.output == name for edge in found.graph.out_of(stage)):
        return True
    return any(chain[0] in (name, label, "params") for _, chain in expression_references((), spec))


def _points(found: Check, label: str) -> Points | None:
    """The points of an axis that are known; of a design, which is drawn later, its ends."""
    axis = found.workflow.axes.get(label)
    made = axis.ends(found.workflow.hyperparameters) if isinstance(axis, Sample) else found.points.get(label)
    return made if made is not None and len(made) else None


def _first_wrong(
    read: _Evaluation, parameter: Parameter, written: Any, axes: Axes
) -> tuple[Place, Any, str] | None:
    """The first place where a value does not fit, with the value and why."""
    name = _NAME.fullmatch(written) if isinstance(written, str) else None
    points = read.known.points[next(iter(axes))]
    if read.when is None and len(axes) == 1 and name is not None and name[1] in points.parameters:
        column = points.columns[points.parameters.index(name[1])]
        index = parameter.first_misfit(column)
        return None if index is None else ((index,), column[index], str(parameter.check(column[index])))
    tree, places = parse_tree(written), read.known.places(axes)
    while parameter.type is not Any and (batch := [*islice(places, _BATCH)]):
        found = [*read.values(tree, axes, batch)]
        index = parameter.first_misfit([value for _, value in found])
        if index is not None:
            return (*found[index], str(parameter.check(found[index][1])))
    return None


def _point_key(found: Check, label: str, parameter: str, index: int) -> Key:
    """Where a value of an axis is written, or the axis."""
    axis, here = found.workflow.axes[label], ("axes", label)
    if not isinstance(axis, Inline):
        return here
    column = axis.columns[axis.names.index(parameter) if axis.names else 0]
    if not isinstance(column, tuple):
        return here
    return (*here, "zip", parameter, index) if axis.gives else (*here, "values", index)
