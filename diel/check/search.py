"""Checks of searches that need the whole workflow: what they draw, and who reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Any

from diel.check.conditions import reads
from diel.check.flaws import Check
from diel.expressions import ExpressionError, parse_expression
from diel.graph import Key, StageGraph, hyperparameter_reads
from diel.graph.judge import judge_of, place_of_name
from diel.spec import Hyperparameter, Search, Workflow

_PLANE = 2
"""Numbers that CMA-ES needs at least: the covariance of one alone says nothing."""


def check_searches(
    found: Check,
    graph: StageGraph,
    values: Mapping[str, Any],
    settings: Collection[str],
) -> None:
    """What searches set, and who reads it.

    `values` has the hyperparameters that need no search to have a value, `settings` names those that have
    it from `--set`.
    """
    for label, axis in found.workflow.axes.items():
        if axis.search is not None:
            for place, message, hint in _space_flaws(found, axis.search):
                found.add(("axes", label, "search", *place), message, hint)
    _check_doubles(found)
    wrong = {problem.key for problem in found.problems}
    unread = _check_unread(found, wrong)
    _check_values(found, graph, values, unread, wrong)
    _check_until_values(found, values, wrong)
    _check_settings(found, settings)


def _space_flaws(found: Check, search: Search) -> Iterator[tuple[Key, str, str]]:
    """What a sampler cannot draw from."""
    known = found.workflow.hyperparameters
    if search.sampler == "grid":
        for number, name in enumerate(search.parameters):
            if known[name].listed is None:
                message = f"a grid cannot list the values of '{name}'"
                yield ("parameters", number), message, _listing(known[name])
    if search.sampler == "cmaes":
        numbers = [name for name in search.parameters if known[name].type in ("int", "float")]
        if len(numbers) < _PLANE:
            message = f"cmaes needs two numbers to vary or more, found {', '.join(numbers) or 'none'}"
            yield ("sampler",), message, "tpe, gp and random take any hyperparameters"


def _listing(given: Hyperparameter) -> str:
    if given.log:
        return "a logarithmic scale has no end of values: list them as type choice, or take another sampler"
    if given.step is not None or given.type == "int":
        return "there are more than a million: give it a larger `step`, or take another sampler"
    return "give it a `step`, or take another sampler"


def _check_doubles(found: Check) -> None:
    """No two searches of one stage set the same hyperparameter."""
    searches = {label: axis.search for label, axis in found.workflow.axes.items() if axis.search is not None}
    places = {label: place for place, label in enumerate(searches)}
    told: set[tuple[str, str]] = set()
    for stage, given in found.workflow.stages.items():
        inside = sorted(searches.keys() & given.over, key=places.__getitem__)
        for other, label in combinations(inside, 2):
            if (other, label) in told:
                continue
            told.add((other, label))
            for number, name in enumerate(searches[label].parameters):
                if name in searches[other].parameters:
                    message = f"'{other}' sets '{name}' too, and '{stage}' runs over both searches"
                    hint = "take it out of the `parameters` of one of them"
                    found.add(("axes", label, "search", "parameters", number), message, hint)


# --- who reads what is set -----------------------------------------------------------------------


def _check_unread(found: Check, wrong: set[str]) -> set[str]:
    """A search that turns a knob which no stage over it is connected to would only waste trials.

    Gives the names of such knobs. Where the axis or a stage over it has something else wrong with it,
    that may be the reason, and is enough to be told.
    """
    unread: set[str] = set()
    for label, axis in found.workflow.axes.items():
        search = axis.search
        if search is None:
            continue
        stages = [name for name, stage in found.workflow.stages.items() if label in stage.over]
        if not stages:
            continue
        if _is_wrong(wrong, f"axes.{label}") or any(_is_wrong(wrong, f"stages.{name}") for name in stages):
            continue
        read = _read_within(found, label, search)
        for number, name in enumerate(search.parameters):
            if name not in read:
                unread.add(name)
                key: Key = ("axes", label, "search", "parameters", number)
                message = f"no stage over '{label}' reads hp.{name}: it would change nothing"
                found.add(key, message, _reader(found, label, name))
    return unread


def _is_wrong(wrong: set[str], key: str) -> bool:
    """Whether a problem is told at a key or below it."""
    return any(place == key or place.startswith(f"{key}.") for place in wrong)


def _reader(found: Check, label: str, name: str) -> str:
    """Where to read a hyperparameter that a search sets."""
    elsewhere = [
        stage
        for stage, given in found.workflow.stages.items()
        if label not in given.over and name in hyperparameter_reads(stage, given)
    ]
    if elsewhere:
        return f"'{elsewhere[0]}' reads it: add {label} to the `over` of that stage"
    return f"read ${{{{ hp.{name} }}}} in a stage over '{label}', or take it out of `parameters`"


def _read_within(found: Check, label: str, search: Search) -> set[str]:
    """The hyperparameters that matter to a search's trials."""
    workflow = found.workflow
    read: set[str] = set()
    inside = {label}
    for name, stage in workflow.stages.items():
        if label in stage.over:
            read |= set(hyperparameter_reads(name, stage))
            inside |= set(stage.over)
    for other in inside:
        form = workflow.axes[other].loop if other in workflow.axes else None
        if form is not None and form.until is not None:
            read |= _read_by(form.until)
    line = [name for name in search.parameters if name in read]
    while line:
        condition = workflow.hyperparameters[line.pop()].when
        fresh = _read_by(condition) - read if condition is not None else set()
        read |= fresh
        line += [name for name in fresh if name in search.parameters]
    return read


def _read_by(expression: str) -> set[str]:
    try:
        return set(reads(parse_expression(expression)))
    except ExpressionError:
        return set()  # which is told where it stands


def _check_values(
    found: Check, graph: StageGraph, values: Mapping[str, Any], unread: set[str], wrong: set[str]
) -> None:
    """Every hyperparameter that a stage reads has a value in each of its tasks."""
    workflow = found.workflow
    for name, stage in workflow.stages.items():
        axes = [*stage.over, *(label for given in stage.inputs.values() for label in given.at)]
        searches = [
            search
            for label in axes
            if label in workflow.axes and (search := workflow.axes[label].search) is not None
        ]
        published = {edge.published.name for edge in graph.into(name) if edge.published is not None}
        for read, key in hyperparameter_reads(name, stage).items():
            if read in values or read in published or read not in workflow.hyperparameters:
                continue
            places = (".".join(map(str, key)), f"hyperparameters.{read}")
            if read in unread or any(_is_wrong(wrong, place) for place in places):
                continue  # which may be the reason
            drawn = any(read in search.parameters for search in searches)
            if not drawn:
                message = f"hp.{read} has no value: no default, and no search here sets it"
                found.add(key, message, f"give it a `default`, or a value by `--set {read}=VALUE`")
            elif workflow.hyperparameters[read].when is not None:
                message = f"hp.{read} has no value in the trials that do not draw it"
                found.add(key, message, "give it a `default`, which stands wherever its `when` does not hold")


def _check_until_values(found: Check, values: Mapping[str, Any], wrong: set[str]) -> None:
    """Every hyperparameter that an `until` reads has a value where it is asked."""
    workflow = found.workflow
    for label, axis in workflow.axes.items():
        form = axis.loop or axis.search
        key: Key = ("axes", label, "loop" if axis.loop else "search", "until")
        if form is None or form.until is None or _is_wrong(wrong, ".".join(map(str, key))):
            continue
        judge = judge_of(workflow, label)
        searches = (
            workflow.axes[other].search for other in (label, *judge.context) if other in workflow.axes
        )
        drawn = {name for search in searches if search is not None for name in search.parameters}
        for name in sorted(_read_by(form.until) & set(workflow.hyperparameters)):
            if name not in values and name not in drawn:
                message = f"hp.{name} has no value: no default, and no search here sets it"
                hint = f"give it a `default`, or a value by `--set {name}=VALUE`"
                found.add(key, message, hint, place_of_name(form.until, f"hp.{name}"))


def _check_settings(found: Check, settings: Collection[str]) -> None:
    """No value is given by `--set` that all who read it get from a search instead."""
    for label, axis in found.workflow.axes.items():
        for number, name in enumerate(axis.search.parameters if axis.search is not None else ()):
            if name in settings and not _is_read_elsewhere(found.workflow, name):
                message = f"the search '{label}' sets '{name}' in every trial: --set would change nothing"
                hint = f"leave --set out, or take '{name}' out of `parameters`; `low` and `high` bound trials"
                found.add(("axes", label, "search", "parameters", number), message, hint)


def _is_read_elsewhere(workflow: Workflow, name: str) -> bool:
    """Whether anything reads a hyperparameter's own value, though searches set it."""
    if workflow.hyperparameters[name].when is not None:
        return True  # which stands in trials that do not draw it
    searches = {label: axis.search for label, axis in workflow.axes.items() if axis.search is not None}
    setting = {label for label, search in searches.items() if name in search.parameters}
    drawn = {other for label in searches.keys() - setting for other in searches[label].parameters}
    conditions = (workflow.hyperparameters[other].when for other in drawn)
    ends = (
        form.until
        for label, axis in workflow.axes.items()
        if (form := axis.loop or axis.search) is not None
        and not setting & {label, *judge_of(workflow, label).context}
    )
    return any(
        name in hyperparameter_reads(stage, given, picked=False) and not setting & set(given.over)
        for stage, given in workflow.stages.items()
    ) or any(name in _read_by(text) for text in (*conditions, *ends) if text is not None)
