"""Checks of expressions: they parse, and each name that they read exists."""

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from diel.base.errors import did_you_mean
from diel.planning.check.launcher import misplaced
from diel.planning.check.violations import Check
from diel.workflow.expressions import ExpressionError, parse_expression
from diel.workflow.graph import Key, hyperparameter_reads
from diel.workflow.graph.judge import place_of_name
from diel.workflow.graph.uses import LAUNCHER, templates
from diel.workflow.models import Axis, Stage
from diel.workflow.models.data import TEXT
from diel.workflow.models.forms.axis import bare

_TASK = ("id", "index", "attempt", "stage")
_RUN = ("id", "dir")
_CORES = "a command reads how many cores each process has from $OMP_NUM_THREADS"
_IN_COMMAND = {
    **dict.fromkeys(("resources", "threads", "cores", "cpus"), _CORES),
    "env": "a command reads such variables itself: $HOME",
}
_ELSEWHERE = {"wildcards": "write the axis parameter alone", "attempt": "write task.attempt"}
"""Where what other tools name so is found."""


class Names(NamedTuple):
    """The names that the expressions of a stage can read."""

    parameters: Mapping[str, str]
    """Axis parameters, and the axis that gives each."""
    open_axes: tuple[str, ...]
    """Axes whose parameters only a run will show."""
    keyed: Mapping[str, tuple[str, ...] | None]
    """Names that take a dot: the keys they have, None for any."""
    own: str = ""
    """The stage's own name, which it cannot read."""
    stage: Stage | None = None
    axes: Mapping[str, Axis] = MappingProxyType({})
    """All axes of the workflow."""


def visible_names(check: Check, name: str) -> Names:
    """Return the names that a stage's expressions can read."""
    workflow = check.workflow
    stage = workflow.stages[name]
    parameters: dict[str, str] = {}
    open_axes: list[str] = []
    keyed: dict[str, tuple[str, ...] | None] = {}
    for label in stage.over:
        if label not in workflow.axes:
            continue
        columns = workflow.axes[label].parameters_of(label)
        if columns is None and label in check.points:
            columns = check.points[label].parameters
        if columns is None:
            open_axes.append(label)
        elif columns != (bare(label),):
            keyed[label] = columns
        parameters.update(dict.fromkeys(columns or (), label))
    keyed |= {
        "hp": tuple(workflow.hyperparameters),
        "params": tuple(stage.params),
        "inputs": tuple(stage.inputs),
        "outputs": tuple(label for label, output in stage.outputs.items() if output.form in ("path", "glob")),
        "files": tuple(stage.files),
        "task": _TASK,
        "run": _RUN,
    }
    return Names(parameters, tuple(open_axes), ChainMap(check.stages, keyed), name, stage, workflow.axes)


def check_expressions(check: Check, name: str, names: Names) -> None:
    """Parse every expression of a stage and look up its names."""
    for key, template in templates(("stages", name), check.workflow.stages[name]):
        if isinstance(template, ExpressionError):
            check.add(key, template.message, template.hint, template.offset)
            continue
        place = _place(key)
        reported: set[tuple[str, ...]] = set()
        for expression in template.expressions:
            read = set(expression.references())
            if not read and not expression.axes:
                try:  # a constant: it fails now or never
                    expression.text_value({})
                except ExpressionError as error:
                    check.add(key, error.message, error.hint, error.offset)
            _look_up(check, key, expression.source, read - reported, names, place, expression.offset)
            reported |= read


def _place(key: Key) -> str:
    """Return the place of an expression, which decides what the expression may read."""
    if key[4:5] == ("initially",) or (key[2] == "files" and key[4:5] == (TEXT,)):
        return str(key[4])
    return str(key[-1] if key[-1] == "backoff" else key[2])


def _look_up(
    check: Check,
    key: Key,
    text: str,
    references: Iterable[tuple[str, ...]],
    names: Names,
    place: str,
    start: int = 0,
) -> None:
    for chain in sorted(references):
        problem = _missing(chain, names, place)
        if problem is not None:
            offset = place_of_name(text, ".".join(chain))
            check.add(key, *problem, start if offset is None and start else start + (offset or 0))


def check_untils(check: Check) -> None:
    """Parse the `until` of searches and loops, and look up its names except STAGE.VALUE."""
    names = Names({}, (), {"hp": tuple(check.workflow.hyperparameters), "run": _RUN})
    for label, axis in check.workflow.axes.items():
        if axis.condition is None:
            continue
        key: Key = ("axes", label, axis.word, "until")
        try:
            read = parse_expression(axis.condition).references
        except ExpressionError as error:
            check.add(key, error.message, error.hint, error.offset)
            continue
        _look_up(check, key, axis.condition, [c for c in read if c[0] in names.keyed], names, "until")


def check_values(check: Check, values: Mapping[str, Any], unread: Collection[str]) -> None:
    """Check that what tasks read has a value: in `values`, or by a search, unless it is `unread`."""
    workflow = check.workflow
    flaws: list[tuple[Key, str, str]] = []
    for name, stage in workflow.stages.items():
        axes = [*stage.over, *(label for source in stage.inputs.values() for label in source.at)]
        drawn = {setting for label in axes if label in workflow.axes for setting in workflow.axes[label].sets}
        handed = check.graph.handed_to(name)
        for read, key in hyperparameter_reads(name, stage).items():
            if read in values or read in handed or read not in workflow.hyperparameters:
                continue
            if read in unread or check.is_wrong(key) or check.is_wrong(("hyperparameters", read)):
                continue  # another message may be the reason
            if read not in drawn:
                message = f"hp.{read} has no value: no default, and no search here sets it"
                flaws.append((key, message, f"give it a `default`, or a value by `--set {read}=VALUE`"))
            elif workflow.hyperparameters[read].when is not None:
                message = f"hp.{read} has no value in the trials that do not draw it"
                flaws.append((key, message, "give it a `default`, which holds wherever its `when` does not"))
    for flaw in flaws:
        check.add(*flaw)


def _missing(chain: tuple[str, ...], names: Names, place: str) -> tuple[str, str] | None:
    first = chain[0]
    if first == LAUNCHER:
        return misplaced(names.stage, place)
    if first in names.parameters or first in names.open_axes:
        return None
    if first == names.own or first not in names.keyed:
        return _unknown(first, names, place)
    if first == "params" and place == "params":
        return "a parameter cannot read other parameters", "repeat the expression, or use a hyperparameter"
    if first in ("params", "outputs", "files") and place == "files":
        return f"a path of `files` cannot read {first}", "read a parameter of an axis, hp.NAME or STAGE.VALUE"
    if first in ("inputs", "params", "outputs") and place == "initially":
        return f"`initially` cannot read {first}", "read STAGE.VALUE, hp.NAME, or a parameter of an axis"
    if chain == ("task", "attempt") and place == "retries":
        return "retries that grow with the attempts never end", "only `backoff` may read task.attempt"
    if first == "inputs" and place == "when":
        return None
    keys = names.keyed[first]
    if len(chain) == 1:
        example = (keys or ("OUTPUT",))[0] if keys != () else "NAME"
        return f"'{first}' is not a value itself", f"write which one: {first}.{example}"
    if keys is not None and chain[1] not in keys:
        return f"no '{chain[1]}' in '{first}'", did_you_mean(chain[1], keys) or (
            f"'{first}' has: {', '.join(keys)}" if keys else f"'{first}' is empty here"
        )
    return None


def _unknown(first: str, names: Names, place: str) -> tuple[str, str] | None:
    """Return message and hint for a wrong name; None for a good name, or if another message covers it."""
    for label, axis in names.axes.items():  # an open axis may give the name too: checked once known
        runs = names.stage is None or label in names.stage.over
        if not runs and first in (label, *(axis.parameters_of(label) or ())):
            return None if names.open_axes else _outside(first, label, names)
    visible = [*names.parameters, *names.open_axes, *(name for name in names.keyed if name != names.own)]
    visible += [LAUNCHER] if misplaced(names.stage, place) is None else []
    near = did_you_mean(first, visible) or _ELSEWHERE.get(first, "")
    near = near or (_IN_COMMAND.get(first, "") if place == "command" else "")
    if names.open_axes and not near:
        return None
    if names.open_axes:  # a column, perhaps, that resembles another name
        made = names.open_axes[0]
        column = f"${{{{ {made}.{first} }}}}, or `columns: [{first}]` at the axis"
        near = f"for a column of '{made}' write {column}; {near}"
    return f"no name '{first}' here", near or f"there are: {', '.join(visible)}"


def _outside(name: str, label: str, names: Names) -> tuple[str, str] | None:
    """Return message and hint for the name of an axis that the stage is not over, or of its parameter. None
    if the stage names an axis that does not exist: that axis was meant, and has its message."""
    over = () if names.stage is None else names.stage.over
    if any(axis not in names.axes for axis in over):
        return None
    what = "an axis" if name == label else f"a parameter of axis '{label}'"
    return (
        f"'{name}' is {what}, and '{names.own}' does not run over it",
        f"write over: [{', '.join((*over, label))}]",
    )
