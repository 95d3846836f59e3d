"""Checks of expressions: they parse, and each name that they read is there."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diel.check.flaws import Check
from diel.errors import did_you_mean
from diel.expressions import ExpressionError, Template, parse_expression, walk
from diel.graph import Key, StageGraph, hyperparameter_reads
from diel.graph.judge import place_of_name
from diel.spec import Stage

TASK_NAMES = ("id", "index", "attempt", "stage")
RUN_NAMES = ("id", "dir")


@dataclass(frozen=True)
class Names:
    """What the expressions of a stage may read."""

    parameters: Mapping[str, str]
    """Axis parameters, and the axis that gives each."""
    open_axes: tuple[str, ...]
    """Axes whose parameters only a run will tell."""
    keyed: Mapping[str, tuple[str, ...] | None]
    """Names with a dot behind them: the keys they have, None for any."""
    own: str = ""
    """The stage's own name, which it cannot read."""


def visible_names(found: Check, name: str) -> Names:
    """The names that a stage's expressions may read."""
    workflow = found.workflow
    stage = workflow.stages[name]
    parameters: dict[str, str] = {}
    open_axes: list[str] = []
    keyed: dict[str, tuple[str, ...] | None] = {}
    for label in stage.over:
        if label not in workflow.axes:
            continue
        known = workflow.axes[label].parameters_of(label)
        if known is None and label in found.points:
            known = found.points[label].parameters
        if known is None:
            open_axes.append(label)
        elif known != (label,):
            keyed[label] = known
        parameters.update(dict.fromkeys(known or (), label))
    keyed |= {
        "hp": tuple(workflow.hyperparameters),
        "params": tuple(stage.params),
        "inputs": tuple(stage.inputs),
        "outputs": tuple(label for label, output in stage.outputs.items() if output.form in ("path", "glob")),
        "files": tuple(stage.files),
        "task": TASK_NAMES,
        "run": RUN_NAMES,
    }
    return Names(parameters, tuple(open_axes), ChainMap(found.stages, keyed), name)


def check_expressions(found: Check, name: str, stage: Stage, names: Names) -> None:
    """Parses every expression of a stage and looks its names up."""
    here: Key = ("stages", name)
    for key, template in _templates(here, stage):
        if isinstance(template, ExpressionError):
            found.add(key, template.message, template.hint, template.offset)
            continue
        if not template.constant and not template.references:
            _check_computable(found, key, template)
        place = "initially" if key[4:5] == ("initially",) else key[2]
        for chain in sorted(template.references):
            problem = _missing(chain, names, str(place))
            if problem is not None:
                found.add(key, problem[0], problem[1], _offset(template.text, chain))


def check_conditions(found: Check) -> None:
    """Parses the `until` of searches and loops, and looks up its names but for STAGE.VALUE."""
    names = Names({}, (), {"hp": tuple(found.workflow.hyperparameters), "run": RUN_NAMES})
    for label, axis in found.workflow.axes.items():
        if axis.condition is None:
            continue
        key: Key = ("axes", label, axis.word, "until")
        try:
            read = parse_expression(axis.condition).references
        except ExpressionError as error:
            found.add(key, error.message, error.hint, error.offset)
            continue
        for chain in sorted(read):
            problem = _missing(chain, names, "until") if chain[0] in names.keyed else None
            if problem is not None:
                found.add(key, *problem, _offset(axis.condition, chain))


def check_values(found: Check, graph: StageGraph, values: Mapping[str, Any], unread: Collection[str]) -> None:
    """Every hyperparameter that a stage reads has a value in each of its tasks.

    `values` has those that need no search to have one, `unread` what searches set and nothing reads.
    """
    for key, message, hint in list(_without_value(found, graph, values, unread)):
        found.add(key, message, hint)


def _without_value(
    found: Check, graph: StageGraph, values: Mapping[str, Any], unread: Collection[str]
) -> Iterator[tuple[Key, str, str]]:
    workflow = found.workflow
    for name, stage in workflow.stages.items():
        axes = [*stage.over, *(label for given in stage.inputs.values() for label in given.at)]
        drawn = {one for label in axes if label in workflow.axes for one in workflow.axes[label].sets}
        published = {edge.published.name for edge in graph.into(name) if edge.published is not None}
        for read, key in hyperparameter_reads(name, stage).items():
            if read in values or read in published or read not in workflow.hyperparameters:
                continue
            if read in unread or found.is_wrong(key) or found.is_wrong(("hyperparameters", read)):
                continue  # which may be the reason
            if read not in drawn:
                message = f"hp.{read} has no value: no default, and no search here sets it"
                yield key, message, f"give it a `default`, or a value by `--set {read}=VALUE`"
            elif workflow.hyperparameters[read].when is not None:
                message = f"hp.{read} has no value in the trials that do not draw it"
                yield key, message, "give it a `default`, which stands wherever its `when` does not hold"


def _check_computable(found: Check, key: Key, template: Template) -> None:
    """An expression that reads no name gives the same in every task: it fails now or never."""
    try:
        template.value({})
    except ExpressionError as error:
        found.add(key, error.message, error.hint, error.offset)


def _offset(text: str, chain: tuple[str, ...]) -> int | None:
    return place_of_name(text, ".".join(chain))


def _templates(here: Key, stage: Stage) -> Iterator[tuple[Key, Template | ExpressionError]]:
    command = list(stage.command) if isinstance(stage.command, tuple) else stage.command
    for place, value in (("command", command), ("params", stage.params), ("env", stage.env)):
        for path, template in walk(value):
            yield (*here, place, *path), template
    for label, given in stage.inputs.items():
        for path, template in walk(given.initially):
            yield (*here, "inputs", label, "initially", *path), template
    for label, file in stage.files.items():
        for _, template in walk(file):
            yield (*here, "files", label), template
    for label, output in stage.outputs.items():
        for _, template in walk(output.path if output.glob is None else output.glob):
            yield (*here, "outputs", label), template
    if isinstance(stage.when, str):
        try:
            yield (*here, "when"), parse_expression(stage.when)
        except ExpressionError as error:
            yield (*here, "when"), error


def _missing(chain: tuple[str, ...], names: Names, place: str) -> tuple[str, str] | None:
    """What is wrong with a name, and a hint; None where it is there."""
    first = chain[0]
    if first in names.parameters:
        return None
    if first in names.open_axes:
        return None
    if first == names.own or first not in names.keyed:
        known = [*names.parameters, *names.open_axes, *(name for name in names.keyed if name != names.own)]
        near = did_you_mean(first, known)
        if names.open_axes and not near:
            return None  # the axis may give it: told when the axis is known
        return f"no name '{first}' here", near or f"there are: {', '.join(known)}"
    if first == "params" and place == "params":
        return "a parameter cannot read other parameters", "repeat the expression, or use a hyperparameter"
    if first in ("params", "outputs", "files") and place == "files":
        return f"a path of `files` cannot read {first}", "read a parameter of an axis, hp.NAME or STAGE.VALUE"
    if first in ("inputs", "params", "outputs") and place == "initially":
        return f"`initially` cannot read {first}", "read STAGE.VALUE, hp.NAME, or a parameter of an axis"
    if first == "inputs" and place == "when":
        return None
    keys = names.keyed[first]
    if len(chain) == 1:
        if first in names.open_axes:
            return None
        example = (keys or ("OUTPUT",))[0] if keys != () else "NAME"
        return f"'{first}' is not a value itself", f"say which one: {first}.{example}"
    if keys is not None and chain[1] not in keys:
        return f"no '{chain[1]}' in '{first}'", did_you_mean(chain[1], keys) or _listing(first, keys)
    return None


def _listing(first: str, keys: tuple[str, ...]) -> str:
    return f"'{first}' has: {', '.join(keys)}" if keys else f"'{first}' is empty here"
