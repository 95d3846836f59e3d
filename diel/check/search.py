"""Checks of searches that need the whole workflow: what they draw, and who reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

from diel.check.conditions import reads
from diel.check.flaws import Check
from diel.expressions import ExpressionError, parse_expression
from diel.graph import Key, hyperparameter_reads
from diel.graph.judge import judge_of, place_of_name
from diel.spec import Workflow


def check_searches(
    found: Check,
    values: Mapping[str, Any],
    settings: Collection[str],
) -> set[str]:
    """What searches set, and who reads it. Gives the hyperparameters that are set and that nothing reads.

    `values` has the hyperparameters that need no search to have a value, `settings` names those that have
    it from `--set`.
    """
    for label, axis in found.workflow.axes.items():
        for flaw in axis.space_flaws(found.workflow.hyperparameters):
            found.add(("axes", label, axis.word, *flaw.key), flaw.message, flaw.hint)
    _check_doubles(found)
    unread = _check_unread(found)
    _check_until_values(found, values)
    _check_settings(found, settings)
    return unread


def _check_doubles(found: Check) -> None:
    """No two searches of one stage set the same hyperparameter."""
    sets = {label: axis.sets for label, axis in found.workflow.axes.items() if axis.sets}
    places = {label: place for place, label in enumerate(sets)}
    told: set[tuple[str, str]] = set()
    for stage, given in found.workflow.stages.items():
        inside = sorted(sets.keys() & given.over, key=places.__getitem__)
        for other, label in combinations(inside, 2):
            if (other, label) in told:
                continue
            told.add((other, label))
            for number, name in enumerate(sets[label]):
                if name in sets[other]:
                    message = f"'{other}' sets '{name}' too, and '{stage}' runs over both searches"
                    hint = "take it out of the `parameters` of one of them"
                    found.add(_parameter(found, label, number), message, hint)


def _parameter(found: Check, label: str, number: int) -> Key:
    """The place of one of the hyperparameters that a search sets."""
    return ("axes", label, found.workflow.axes[label].word, "parameters", number)


# --- who reads what is set -----------------------------------------------------------------------


def _check_unread(found: Check) -> set[str]:
    """A search that turns a knob which no stage over it is connected to would only waste trials.

    Gives the names of such knobs. Where the axis or a stage over it has something else wrong with it,
    that may be the reason, and is enough to be told.
    """
    unread: set[str] = set()
    for label, axis in found.workflow.axes.items():
        if not axis.sets:
            continue
        stages = [name for name, stage in found.workflow.stages.items() if label in stage.over]
        if not stages:
            continue
        if found.is_wrong(("axes", label)) or any(found.is_wrong(("stages", name)) for name in stages):
            continue
        read = _read_within(found, label)
        for number, name in enumerate(axis.sets):
            if name not in read:
                unread.add(name)
                message = f"no stage over '{label}' reads hp.{name}: it would change nothing"
                found.add(_parameter(found, label, number), message, _reader(found, label, name))
    return unread


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


def _read_within(found: Check, label: str) -> set[str]:
    """The hyperparameters that matter to a search's trials."""
    workflow, sets = found.workflow, found.workflow.axes[label].sets
    read: set[str] = set()
    inside = {label}
    for name, stage in workflow.stages.items():
        if label in stage.over:
            read |= set(hyperparameter_reads(name, stage))
            inside |= set(stage.over)
    for other in inside:
        axis = workflow.axes.get(other)
        if axis is not None and axis.in_turn and axis.condition is not None:
            read |= _read_by(axis.condition)
    line = [name for name in sets if name in read]
    while line:
        condition = workflow.hyperparameters[line.pop()].when
        fresh = _read_by(condition) - read if condition is not None else set()
        read |= fresh
        line += [name for name in fresh if name in sets]
    return read


def _read_by(expression: str) -> set[str]:
    try:
        return set(reads(parse_expression(expression)))
    except ExpressionError:
        return set()  # which is told where it stands


def _check_until_values(found: Check, values: Mapping[str, Any]) -> None:
    """Every hyperparameter that an `until` reads has a value where it is asked."""
    workflow = found.workflow
    for label, axis in workflow.axes.items():
        if axis.condition is None:
            continue
        key: Key = ("axes", label, axis.word, "until")
        if found.is_wrong(key):
            continue
        judge = judge_of(workflow, label)
        around = [other for other in (label, *judge.context) if other in workflow.axes]
        drawn = {name for other in around for name in workflow.axes[other].sets}
        for name in sorted(_read_by(axis.condition) & set(workflow.hyperparameters)):
            if name not in values and name not in drawn:
                message = f"hp.{name} has no value: no default, and no search here sets it"
                hint = f"give it a `default`, or a value by `--set {name}=VALUE`"
                found.add(key, message, hint, place_of_name(axis.condition, f"hp.{name}"))


def _check_settings(found: Check, settings: Collection[str]) -> None:
    """No value is given by `--set` that all who read it get from a search instead."""
    for label, axis in found.workflow.axes.items():
        for number, name in enumerate(axis.sets):
            if name in settings and not _is_read_elsewhere(found.workflow, name):
                message = f"the search '{label}' sets '{name}' in every trial: --set would change nothing"
                hint = f"leave --set out, or take '{name}' out of `parameters`; `low` and `high` bound trials"
                found.add(_parameter(found, label, number), message, hint)


def _is_read_elsewhere(workflow: Workflow, name: str) -> bool:
    """Whether anything reads a hyperparameter's own value, though searches set it."""
    if workflow.hyperparameters[name].when is not None:
        return True  # which stands in trials that do not draw it
    setting = {label for label, axis in workflow.axes.items() if name in axis.sets}
    drawn = {other for label in workflow.axes.keys() - setting for other in workflow.axes[label].sets}
    conditions = (workflow.hyperparameters[other].when for other in drawn)
    ends = (
        axis.condition
        for label, axis in workflow.axes.items()
        if not setting & {label, *judge_of(workflow, label).context}
    )
    return any(
        name in hyperparameter_reads(stage, given, picked=False) and not setting & set(given.over)
        for stage, given in workflow.stages.items()
    ) or any(name in _read_by(text) for text in (*conditions, *ends) if text is not None)
