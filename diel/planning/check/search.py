"""Checks of searches that need the whole workflow: their draws, conditions and readers."""

import itertools
import random
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any, NamedTuple

from diel.base.errors import did_you_mean
from diel.planning.check.violations import Check
from diel.workflow.expressions import ExpressionError, Template, parse_expression
from diel.workflow.graph import Key, hyperparameter_reads
from diel.workflow.graph.judge import judge_of, place_of_name
from diel.workflow.graph.uses import hyperparameter_places
from diel.workflow.models import Hyperparameter, Workflow

_LISTED = 1_000
"""With at most this many possible trials, a search's check tries them all."""
_DRAWN = 200
"""How many are drawn at random if there are more."""


def check_searches(check: Check, values: Mapping[str, Any], settings: Collection[str]) -> set[str]:
    """Check what searches set; return unread parameters. `settings`: of --set, `values`: all fixed ones."""
    for label, axis in check.workflow.axes.items():
        for flaw in axis.space_flaws(check.workflow.hyperparameters):
            check.add(("axes", label, axis.word, *flaw.key), flaw.message, flaw.hint)
    _check_doubles(check)
    unread = _check_unread(check)
    _check_until_values(check, values)
    _check_beside_trials(check)
    for label, axis in check.workflow.axes.items():
        for number, name in enumerate(axis.sets):
            if name in settings and not _is_read_elsewhere(check.workflow, name):
                message = f"the search '{label}' sets '{name}' in every trial: --set would change nothing"
                hint = f"omit --set, or remove '{name}' from `parameters`; `low` and `high` bound trials"
                check.add(_parameter(check, label, number), message, hint)
    return unread


def _parameter(check: Check, label: str, number: int) -> Key:
    return ("axes", label, check.workflow.axes[label].word, "parameters", number)


def _check_doubles(check: Check) -> None:
    sets = {label: axis.sets for label, axis in check.workflow.axes.items()}
    pairs: set[tuple[str, str]] = set()
    for stage, spec in check.workflow.stages.items():
        for other, label in itertools.combinations([swept for swept in sets if swept in spec.over], 2):
            for number, name in enumerate(sets[label] if (other, label) not in pairs else ()):
                if name in sets[other]:
                    message = f"'{other}' sets '{name}' too, and '{stage}' runs over both searches"
                    hint = "remove it from the `parameters` of one of them"
                    check.add(_parameter(check, label, number), message, hint)
            pairs.add((other, label))


def _check_unread(check: Check) -> set[str]:
    """Return parameters that a search sets and no stage over it reads, if nothing else is wrong."""
    unread: set[str] = set()
    for label, axis in check.workflow.axes.items():
        stages = [name for name, stage in check.workflow.stages.items() if label in stage.over]
        wrong = check.is_wrong(("axes", label)) or any(check.is_wrong(("stages", name)) for name in stages)
        if not axis.sets or not stages or wrong:
            continue
        read = _read_within(check, label)
        for number, name in enumerate(axis.sets):
            if name not in read:
                unread.add(name)
                message = f"no stage over '{label}' reads hp.{name}: it would change nothing"
                check.add(_parameter(check, label, number), message, _reader(check, label, name))
    return unread


def _reader(check: Check, label: str, name: str) -> str:
    for stage, spec in check.workflow.stages.items():
        if label not in spec.over and name in hyperparameter_reads(stage, spec):
            return f"'{stage}' reads it: add {label} to the `over` of that stage"
    return f"read ${{{{ hp.{name} }}}} in a stage over '{label}', or remove it from `parameters`"


def _read_within(check: Check, label: str) -> set[str]:
    """Return the hyperparameters that matter to a search's trials."""
    workflow, sets = check.workflow, check.workflow.axes[label].sets
    read: set[str] = set()
    inside = {label}
    for name, stage in workflow.stages.items():
        if label in stage.over:
            read |= set(hyperparameter_reads(name, stage))
            inside |= set(stage.over)
    for other in inside & workflow.axes.keys():
        if workflow.axes[other].in_turn:
            read |= _read_by(workflow.axes[other].condition)
    line = [name for name in sets if name in read]
    while line:
        fresh = _read_by(workflow.hyperparameters[line.pop()].when) - read
        read |= fresh
        line += [name for name in fresh if name in sets]
    return read


def _read_by(expression: str | None) -> set[str]:
    try:
        return set() if expression is None else set(_reads(parse_expression(expression)))
    except ExpressionError:
        return set()  # another check reports it


def _check_beside_trials(check: Check) -> None:
    """Refuse a hyperparameter's own value beside results of trials that set it: theirs is meant."""
    stages, axes = check.workflow.stages, check.workflow.axes
    for name, stage in stages.items():
        edges = [edge for edge in check.graph.into(name) if not (edge.axis or edge.published or edge.service)]
        trials = {
            read: (label, stage.inputs[edge.name].at.get(label) if edge.name else None)
            for edge in edges
            if edge.output is not None or edge.hyperparameter is not None
            for label in stages[edge.upstream].over
            if label not in stage.over and label in axes
            for read in axes[label].sets
        }
        own = trials.keys() - check.set_later(name)
        for key, read in hyperparameter_places(name, stage) if own else ():
            if read in own and all(edge.key != key for edge in edges):
                label, pick = trials[read]
                at = str(pick).replace("'", "")
                source = f"hp.{read}" if pick is None else f"{{from: hp.{read}, at: {{{label}: {at}}}}}"
                message = f"hp.{read} is its own value here, not of the trials of '{label}' that are read"
                check.add(key, message, f"write inputs: {{{read}: {source}}}, and read inputs.{read}")


def _check_until_values(check: Check, values: Mapping[str, Any]) -> None:
    workflow = check.workflow
    for label, axis in workflow.axes.items():
        key: Key = ("axes", label, axis.word, "until")
        if axis.condition is None or check.is_wrong(key):
            continue
        around = {label, *judge_of(workflow, label).context} & workflow.axes.keys()
        drawn = {name for other in around for name in workflow.axes[other].sets}
        for name in sorted(_read_by(axis.condition) & set(workflow.hyperparameters)):
            if name not in values and name not in drawn:
                message = f"hp.{name} has no value: no default, and no search here sets it"
                hint = f"give it a `default`, or a value by `--set {name}=VALUE`"
                check.add(key, message, hint, place_of_name(axis.condition, f"hp.{name}"))


def _is_read_elsewhere(workflow: Workflow, name: str) -> bool:
    """Return whether a stage reads a hyperparameter's own value, though searches set it."""
    if workflow.hyperparameters[name].when is not None:
        return True  # trials that do not draw it have its own value
    setting = {label for label, axis in workflow.axes.items() if name in axis.sets}
    drawn = {other for label in workflow.axes.keys() - setting for other in workflow.axes[label].sets}
    texts = [workflow.hyperparameters[other].when for other in drawn]
    texts += [
        axis.condition
        for label, axis in workflow.axes.items()
        if not setting & {label, *judge_of(workflow, label).context}
    ]
    return any(name in _read_by(text) for text in texts) or any(
        name in hyperparameter_reads(stage, spec, picked=False) and not setting & set(spec.over)
        for stage, spec in workflow.stages.items()
    )


def check_whens(check: Check, values: Mapping[str, Any]) -> set[str]:
    """Check that each `when` can be read, is in no cycle, and holds for some trial; return the wrong ones."""
    conditions: dict[str, Template] = {}
    wrong: set[str] = set()
    for name, spec in check.workflow.hyperparameters.items():
        if spec.when is None:
            continue
        try:
            conditions[name] = parse_expression(spec.when)
            flaws = list(_reading_flaws(check, name, conditions[name]))
        except ExpressionError as error:
            flaws = [(error.message, error.hint, error.offset)]
        for flaw in flaws:
            check.add(_when(name), *flaw)
            wrong.add(name)
    wrong |= _check_cycles(check, conditions, wrong)
    for label, axis in check.workflow.axes.items():
        if axis.sets and not wrong & set(axis.sets):
            space = _Space(check.workflow.hyperparameters, axis.sets, conditions, values)
            if _check_sources(check, label, space):
                _check_trials(check, label, space)
    return wrong


def _reads(condition: Template) -> tuple[str, ...]:
    return tuple(sorted({chain[1] for chain in condition.references if chain[0] == "hp" and len(chain) > 1}))


def _when(name: str) -> Key:
    return ("hyperparameters", name, "when")


def _reading_flaws(check: Check, name: str, condition: Template) -> Iterator[tuple[str, str, int | None]]:
    registry = check.workflow.hyperparameters
    if not condition.references:
        yield "`when` reads no other hyperparameter", "for instance hp.optimizer == 'sgd'", None
    for chain in sorted(condition.references):
        written = ".".join(chain)
        offset = place_of_name(condition.text, written)
        if chain[0] != "hp":
            bare = chain[0] in registry and len(chain) == 1
            hint = f"write hp.{written}" if bare else "it is evaluated before a trial begins"
            yield f"a `when` only reads other hyperparameters, found '{written}'", hint, offset
        elif len(chain) == 1:
            yield "'hp' is not a value itself", f"write which one: hp.{next(iter(registry))}", offset
        elif chain[1] not in registry:
            hint = did_you_mean(chain[1], registry) or f"hyperparameters: {', '.join(registry)}"
            yield f"no hyperparameter '{chain[1]}'", hint, offset
        elif chain[1] == name:
            yield f"'{name}' would be drawn by its own value", "read other hyperparameters", offset


def _check_cycles(check: Check, conditions: Mapping[str, Template], wrong: set[str]) -> set[str]:
    """Find hyperparameters that wait for each other; return the names of one such cycle."""
    try:
        TopologicalSorter(
            {name: [other for other in _reads(when) if other != name] for name, when in conditions.items()}
        ).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1][:0:-1]
        turn = ring.index(min(ring, key=list(check.workflow.hyperparameters).index))
        ring = [*ring[turn:], *ring[:turn]]
        if not wrong & set(ring):
            shown = " -> ".join([*ring, ring[0]])
            message = f"each waits for the other: {shown}"
            check.add(_when(ring[0]), message, "remove one of these `when`")
        return set(ring)
    return set()


class _Space(NamedTuple):
    """The parameters of a search, for a check of its conditions."""

    registry: Mapping[str, Hyperparameter]
    names: tuple[str, ...]
    conditions: Mapping[str, Template]
    values: Mapping[str, Any]

    @property
    def conditional(self) -> list[str]:
        return [name for name in self.names if name in self.conditions]

    @property
    def order(self) -> list[str]:
        """The deciding names, each after those that its condition reads."""
        needs: dict[str, tuple[str, ...]] = {}
        line = self.conditional
        while line:
            name = line.pop()
            before = _reads(self.conditions[name]) if name in self.conditions else ()
            needs[name] = tuple(other for other in before if other in self.names)
            line += [other for other in needs[name] if other not in needs]
        return list(TopologicalSorter(needs).static_order())

    def trials(self) -> tuple[bool, Iterator[dict[str, Any]]]:
        """Return values for the deciding names, and whether these are all combinations."""
        order = self.order
        read = {other for name in self.conditional for other in _reads(self.conditions[name])}
        columns = [self.registry[name].listed or () if name in read else (None,) for name in order]
        if all(columns) and prod(map(len, columns)) <= _LISTED:
            return True, (dict(zip(order, row, strict=True)) for row in itertools.product(*columns))
        draw = random.Random(0)
        return False, ({name: _drawn(draw, self.registry[name]) for name in order} for _ in range(_DRAWN))


def _drawn(draw: random.Random, spec: Hyperparameter) -> Any:
    if spec.type in ("choice", "bool"):
        return draw.choice(spec.listed or (None,))
    low, high = spec.low or 0, spec.high or 0
    return draw.randint(int(low), int(high)) if spec.type == "int" else draw.uniform(low, high)


def _check_sources(check: Check, label: str, space: _Space) -> bool:
    good = True
    for name in space.conditional:
        condition = space.conditions[name]
        for other in (other for other in _reads(condition) if other not in space.names):
            elsewhere = _drawn_elsewhere(check, label, other)
            if elsewhere:
                message = f"'{label}' draws '{name}', and cannot see '{other}', which '{elsewhere}' draws"
                hint = "let one search set both"
            elif other not in space.values:
                message = f"'{other}' has no value here: no default, and '{label}' does not draw it"
                hint = f"give '{other}' a default, or add it to the `parameters` of '{label}'"
            else:
                continue
            check.add(_when(name), message, hint, place_of_name(condition.text, f"hp.{other}"))
            good = False
    return good


def _drawn_elsewhere(check: Check, label: str, name: str) -> str:
    """Find another search that sets a hyperparameter for the stages of this one; empty if none does."""
    for other, axis in check.workflow.axes.items():
        sets = other != label and name in axis.sets
        if sets and any({label, other} <= set(stage.over) for stage in check.workflow.stages.values()):
            return other
    return ""


def _check_trials(check: Check, label: str, space: _Space) -> None:
    waiting = set(space.conditional)
    every, trials = space.trials()
    order = space.order
    for row in trials:
        drawn: dict[str, Any] = {}
        for name in order:
            condition = space.conditions.get(name)
            try:
                holds = condition is None or condition.value({"hp": {**space.values, **drawn}})
            except ExpressionError as error:
                check.add(_when(name), *_failure(error, space, name, drawn))
                return
            if holds:
                drawn[name] = row[name]
                waiting.discard(name)
    for name in sorted(waiting) if every else ():
        if set(_reads(space.conditions[name])) <= set(space.names):
            message = f"it holds for no trial of '{label}', so '{name}' is never drawn"
            check.add(_when(name), message, f"remove '{name}' from the `parameters`, or fix the condition")


def _failure(
    error: ExpressionError, space: _Space, name: str, drawn: Mapping[str, Any]
) -> tuple[str, str, int | None]:
    settled = {**space.values, **drawn}
    condition = space.conditions[name]
    for other in _reads(condition):
        if other not in settled:
            message = f"'{other}' has no value in trials that do not draw it"
            own = (space.registry[other].when or "").strip().removeprefix("${{").removesuffix("}}").strip()
            hint = f"give it a default, or test its own condition first: `{own} and …`"
            return message, hint, place_of_name(condition.text, f"hp.{other}")
    values = ", ".join(f"{other} is {settled[other]!r}" for other in _reads(condition))
    return f"{error.message} (where {values})", error.hint, error.offset
