"""Checks of stages with Python modules: the modules exist, and parameters fit their signatures."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.values import point_text
from diel.planning.check.environment import brings_packages
from diel.planning.check.names import Names
from diel.planning.check.violations import Axes, Check, KnownValues, Place
from diel.workflow.expressions import ExpressionError, Template, Tree, parse_expression, parse_tree
from diel.workflow.graph import Key
from diel.workflow.graph.gang import stream_inputs
from diel.workflow.graph.uses import expression_references
from diel.workflow.models import Hyperparameter
from diel.workflow.models.forms.axis import Points
from diel.workflow.models.forms.sample import Sample
from diel.workflow.models.forms.written import Inline
from diel.workflow.modules.catalogue import ModuleNotFound, NotInstalled, again, find, search_path, unread
from diel.workflow.modules.parameter import Parameter, hint
from diel.workflow.modules.sources import SourceVersion


def find_modules(check: Check, folder: Path, cwd: Path, sources: SourceVersion | None = None) -> None:
    """Find the module of each stage; `folder` is the workflow's, `sources` what a run keeps."""
    named = {name: stage.module for name, stage in check.workflow.stages.items() if stage.module is not None}
    folders = search_path(folder, cwd)
    seek = cache(find)  # many stages may run one function
    for name, module in named.items():
        home, stage = check.document.home(("stages", name, "module")), check.workflow.stages[name]
        try:
            if sources is not None and name in sources.modules:
                resolved = again(sources.modules[name], sources)
            else:
                resolved = seek(module, folders if home is None else (home / "modules", *folders))
            if resolved.packaged and brings_packages(check.workflow, stage):
                resolved = unread(module)
        except ModuleNotFound as error:
            if not (stage.is_surrounded and isinstance(error, NotInstalled)):
                check.add(("stages", name, "module"), error.message, error.hint)
                continue
            resolved = unread(module)
        declared = [label for label, output in stage.outputs.items() if output.form is None]
        check.modules[name] = resolved._replace(signature=resolved.signature.named(declared))


def check_module(check: Check, name: str, names: Names, hyperparameters: Mapping[str, Any]) -> None:
    """Check names, types and bounds of what a stage gives its module."""
    stage, module = check.workflow.stages[name], check.modules[name]
    here: Key = ("stages", name)
    arguments, deferred = _params(check, name, hyperparameters)
    takes = {parameter.name for parameter in module.signature.parameters}
    if names.open_axes:  # its points can give any parameter
        deferred |= takes
    for label in names.parameters:
        if label in takes - arguments.keys():
            deferred.add(label)
            arguments[label] = None
    for wrong, message, advice in module.signature.check(arguments, deferred):
        check.add(_place(check, name, wrong, names), message, advice)
    check_points(check, name, names, hyperparameters)
    for label in stage.inputs.keys() & stage.params.keys():
        check.add((*here, "inputs", label), f"'{label}' is in `params` too", "rename one of them")
    communicators = [p for p in module.signature.parameters if p.injected == "communicator"]
    if communicators and communicators[0].required and not stage.resources.mpi:
        message = f"'{module.reference}' needs MPI ranks for its parameter '{communicators[0].name}'"
        check.add((*here, "module"), message, "add `resources: {ranks: 2}`")


def _params(check: Check, name: str, hyperparameters: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    stage, searched = check.workflow.stages[name], check.searched(name)
    arguments: dict[str, Any] = {}
    deferred: set[str] = set()
    for label, value in stage.params.items():
        arguments[label] = value
        try:
            tree = parse_tree(value)
            if any(chain[0] != "hp" or chain[1] in searched for chain in tree.references):
                deferred.add(label)
            else:
                arguments[label] = tree.value({"hp": hyperparameters})
                if arguments[label] is None and not tree.constant:
                    deferred.add(label)  # a hyperparameter without a default
        except (ExpressionError, IndexError):
            deferred.add(label)
    for label in stage.inputs.keys() - stream_inputs(check.workflow, name):
        source = stage.inputs[label].source.removeprefix("hp.")
        arguments.setdefault(label, hyperparameters.get(source))
        if arguments[label] is None or source == stage.inputs[label].source or source in searched:
            deferred.add(label)
    return arguments, deferred


def _place(check: Check, name: str, label: str | None, names: Names) -> Key:
    stage = check.workflow.stages[name]
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
    """The values that a stage's expressions can read before the run, and the condition of its tasks."""

    space: KnownValues
    when: Template | None

    def values(self, tree: Tree, axes: Axes, places: Iterable[Place]) -> Iterator[tuple[Place, Any]]:
        """Yield the value at each place whose task is wanted."""
        for place in places:
            scope = self.space.scope(axes, place)
            try:
                if self.when is None or self.when.value(scope):
                    yield place, tree.value(scope)
            except ExpressionError:
                continue  # as a division by zero: its task will tell


def check_points(check: Check, name: str, names: Names, hyperparameters: Mapping[str, Any]) -> None:
    """Hold what a module takes to its annotations: at each point of an axis, in large products at their
    corners and at points evenly spread, and only where tasks are wanted."""
    stage, signature = check.workflow.stages[name], check.modules[name].signature
    points = {label: listed for label in stage.over if (listed := _points(check, label)) is not None}
    for n in sorted(check.searched(name) & set(check.workflow.hyperparameters)):
        points[f"hp.{n}"] = Points((f"hp.{n}",), (_ends(check.workflow.hyperparameters[n]),))
    if not points or signature.loose or stage.when is False:
        return
    settled = KnownValues.of(check, name, hyperparameters).hyperparameters
    space = KnownValues(points, {label: value for label, value in settled.items() if value is not None})
    try:
        when = parse_expression(stage.when) if isinstance(stage.when, str) else None
    except ExpressionError:
        return  # another check reports it
    read, gates = _Evaluation(space, when), {} if when is None else space.axes(when.references)
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
        if axes := space.axes(tree.references):
            over = {n: points[n].parameters for n in points if n in axes or n in (gates or ())}
            wrong = _first_wrong(read, parameter, written, over)
            if wrong is not None:
                place, value, message = wrong
                first = next(iter(axes))
                key = _point_key(check, first, label, place[[*over].index(first)]) if own else None
                scope = space.scope(over, place)
                drawn = [n for n in over if n.startswith("hp.")]
                at = {n: scope[n] for n in (*names.parameters, *drawn) if n in scope}
                message = f"'{label}' at {point_text(at)}: {message}"
                note = f"a search draws {drawn[0]}: narrow it to what fits" if drawn else hint(message, value)
                check.add(key or ("stages", name, "params", label), message, note)


def _ends(spec: Hyperparameter) -> tuple[Any, ...]:
    """Return the extreme values of a search's parameter, or the first of its choices."""
    if spec.type in ("choice", "bool"):
        return (spec.listed or ())[:_CHOICES]
    kind = int if spec.type == "int" else float
    return tuple(kind(end) for end in (spec.low, spec.high) if end is not None)


def check_designs(check: Check) -> None:
    """Check that what is drawn for a hyperparameter is read: `hp.NAME` keeps its one value in all tasks."""
    for label, axis in check.workflow.axes.items():
        if not isinstance(axis, Sample) or not isinstance(axis.parameters, tuple):
            continue
        stages = [name for name, stage in check.workflow.stages.items() if label in stage.over]
        for place, name in enumerate(axis.parameters):
            shared = [key for stage in stages for key in _shared_reads(check, stage, label, name)]
            for key in shared:
                message = f"hp.{name} is the same in all tasks, and axis '{label}' draws '{name}'"
                check.add(key, message, f"write ${{{{ {name} }}}}")
            commands = any(check.workflow.stages[n].command is not None for n in stages)  # by DIEL_PARAMS
            if not shared and not commands and not any(_reads_drawn(check, s, label, name) for s in stages):
                message = f"no stage reads '{name}', so that what is drawn changes nothing"
                check.add(("axes", label, "sample", "parameters", place), message, f"read ${{{{ {name} }}}}")


def _shared_reads(check: Check, stage: str, label: str, name: str) -> list[Key]:
    """Return where a stage reads a hyperparameter, and not the value drawn for it."""
    here: Key = ("stages", stage)
    spec = check.workflow.stages[stage]
    keys = [key for key, read in expression_references(here, spec) if read == ("hp", name)]
    keys += [(*here, "inputs", key) for key, source in spec.inputs.items() if source.source == f"hp.{name}"]
    return [] if _reads_drawn(check, stage, label, name) else keys[:1]


def _reads_drawn(check: Check, stage: str, label: str, name: str) -> bool:
    spec = check.workflow.stages[stage]
    module = check.modules.get(stage)
    if module is not None and name not in (*spec.params, *spec.inputs):
        signature = module.signature
        if signature.loose or signature.variadic or name in (p.name for p in signature.parameters):
            return True
    if any(edge.output == name for edge in check.graph.out_of(stage)):
        return True
    return any(chain[0] in (name, label, "params") for _, chain in expression_references((), spec))


def _points(check: Check, label: str) -> Points | None:
    """Return the known points of an axis; of a design, which is drawn later, its ends."""
    axis = check.workflow.axes.get(label)
    rows = axis.ends(check.workflow.hyperparameters) if isinstance(axis, Sample) else check.points.get(label)
    return rows if rows is not None and len(rows) else None


def _first_wrong(
    read: _Evaluation, parameter: Parameter, written: Any, axes: Axes
) -> tuple[Place, Any, str] | None:
    """Return the first place where a value does not fit, with the value and the reason."""
    name = _NAME.fullmatch(written) if isinstance(written, str) else None
    points = read.space.points[next(iter(axes))]
    if read.when is None and len(axes) == 1 and name is not None and name[1] in points.parameters:
        column = points.columns[points.parameters.index(name[1])]
        index = parameter.first_misfit(column)
        return None if index is None else ((index,), column[index], str(parameter.check(column[index])))
    tree, places = parse_tree(written), read.space.places(axes)
    while parameter.type is not Any and (batch := [*islice(places, _BATCH)]):
        pairs = [*read.values(tree, axes, batch)]
        index = parameter.first_misfit([value for _, value in pairs])
        if index is not None:
            return (*pairs[index], str(parameter.check(pairs[index][1])))
    return None


def _point_key(check: Check, label: str, parameter: str, index: int) -> Key:
    """Return where a value of an axis is written, or the axis."""
    axis, here = check.workflow.axes[label], ("axes", label)
    if not isinstance(axis, Inline):
        return here
    column = axis.columns[axis.names.index(parameter) if axis.names else 0]
    if not isinstance(column, tuple):
        return here
    return (*here, "zip", parameter, index) if axis.gives else (*here, "values", index)
