"""Checks of hyperparameters' conditions: they can be read, end somewhere, and hold for some trial."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any

from diel.check.flaws import Check
from diel.errors import did_you_mean
from diel.expressions import ExpressionError, Template, parse_expression
from diel.graph import Key
from diel.graph.judge import place_of_name
from diel.spec import Hyperparameter

_LISTED = 1_000
"""Trials up to which every one that a search could propose is tried."""
_DRAWN = 200
"""How many are drawn at random where there are more."""


def check_hyperparameter_conditions(found: Check, values: Mapping[str, Any]) -> set[str]:
    """Every `when` of the registry, and what searches would make of it. `values` has the fixed ones.

    Gives the names of the hyperparameters whose `when` is wrong.
    """
    conditions: dict[str, Template] = {}
    wrong: set[str] = set()
    for name, given in found.workflow.hyperparameters.items():
        if given.when is None:
            continue
        try:
            conditions[name] = parse_expression(given.when)
        except ExpressionError as error:
            found.add(_key(name), error.message, error.hint, error.offset)
            wrong.add(name)
            continue
        for message, hint, offset in _reading_flaws(found, name, conditions[name]):
            found.add(_key(name), message, hint, offset)
            wrong.add(name)
    wrong |= _check_cycles(found, {name: reads(one) for name, one in conditions.items()}, wrong)
    for label, axis in found.workflow.axes.items():
        if not axis.sets or wrong & set(axis.sets):
            continue
        space = _Space(found, axis.sets, conditions, values)
        if _check_sources(found, label, space):
            _check_trials(found, label, space)
    return wrong


def reads(condition: Template) -> tuple[str, ...]:
    """The hyperparameters that a condition reads."""
    return tuple(sorted({chain[1] for chain in condition.references if chain[0] == "hp" and len(chain) > 1}))


def _key(name: str) -> Key:
    return ("hyperparameters", name, "when")


def _reading_flaws(found: Check, name: str, condition: Template) -> Iterator[tuple[str, str, int | None]]:
    known = found.workflow.hyperparameters
    if not condition.references:
        yield "`when` reads no other hyperparameter", "for instance hp.optimizer == 'sgd'", None
    for chain in sorted(condition.references):
        written = ".".join(chain)
        offset = _offset(condition, written)
        if chain[0] != "hp":
            bare = chain[0] in known and len(chain) == 1
            hint = f"write hp.{written}" if bare else "it is asked for before a trial begins"
            yield f"a `when` reads other hyperparameters only, found '{written}'", hint, offset
        elif len(chain) == 1:
            yield "'hp' is not a value itself", f"say which one: hp.{next(iter(known))}", offset
        elif chain[1] not in known:
            hint = did_you_mean(chain[1], known) or f"hyperparameters: {', '.join(known)}"
            yield f"no hyperparameter '{chain[1]}'", hint, offset
        elif chain[1] == name:
            yield f"'{name}' is drawn only where its own value fits", "read other hyperparameters", offset


def _offset(condition: Template, written: str) -> int | None:
    return place_of_name(condition.text, written)


def _check_cycles(found: Check, edges: Mapping[str, tuple[str, ...]], wrong: set[str]) -> set[str]:
    """Hyperparameters that are each drawn after the other; gives the names of one such ring."""
    plain = {name: [other for other in others if other != name] for name, others in edges.items()}
    try:
        TopologicalSorter(plain).prepare()
    except CycleError as error:
        ring: list[str] = list(reversed(error.args[1]))[:-1]
        first = min(ring, key=list(found.workflow.hyperparameters).index)
        turn = ring.index(first)
        ring = [*ring[turn:], *ring[:turn]]
        if not wrong & set(ring):
            told = " -> ".join([*ring, first])
            found.add(_key(first), f"each is drawn after the other: {told}", "take one of these `when` out")
        return set(ring)
    return set()


@dataclass
class _Space:
    """What a search draws from, as far as its conditions are concerned."""

    found: Check
    names: tuple[str, ...]
    conditions: Mapping[str, Template]
    values: Mapping[str, Any]

    @property
    def known(self) -> Mapping[str, Hyperparameter]:
        return self.found.workflow.hyperparameters

    @property
    def conditional(self) -> list[str]:
        return [name for name in self.names if name in self.conditions]

    @property
    def order(self) -> list[str]:
        """The names that decide, each after those that its condition reads."""
        wanted: dict[str, tuple[str, ...]] = {}
        line = self.conditional
        while line:
            name = line.pop()
            before = reads(self.conditions[name]) if name in self.conditions else ()
            wanted[name] = tuple(other for other in before if other in self.names)
            line += [other for other in wanted[name] if other not in wanted]
        return list(TopologicalSorter(wanted).static_order())

    def trials(self) -> tuple[bool, Iterator[dict[str, Any]]]:
        """Values for the names that decide; whether these are all that there may be."""
        order = self.order
        leaves = {other for name in self.conditional for other in reads(self.conditions[name])}
        listed = [self.known[name].listed if name in leaves else (None,) for name in order]
        if all(values is not None and len(values) <= _LISTED for values in listed):
            columns = [values or () for values in listed]
            if prod(map(len, columns)) <= _LISTED:
                return True, (dict(zip(order, row, strict=True)) for row in itertools.product(*columns))
        draw = random.Random(0)
        rows = ({name: _drawn(draw, self.known[name]) for name in order} for _ in range(_DRAWN))
        return False, rows


def _drawn(draw: random.Random, given: Hyperparameter) -> Any:
    if given.type in ("choice", "bool"):
        return draw.choice(given.listed or (None,))
    low, high = given.low or 0, given.high or 0
    return draw.randint(int(low), int(high)) if given.type == "int" else draw.uniform(low, high)


def _check_sources(found: Check, label: str, space: _Space) -> bool:
    """Whether everything that the conditions of a search read has a value; tells what has none."""
    good = True
    for name in space.conditional:
        for other in reads(space.conditions[name]):
            if other in space.names:
                continue
            elsewhere = _drawn_elsewhere(found, label, other)
            if elsewhere:
                message = f"'{label}' draws '{name}', and cannot see '{other}', which '{elsewhere}' draws"
                hint = "let one search set both"
            elif other not in space.values:
                message = f"'{other}' has no value here: neither a default, nor is it drawn by '{label}'"
                hint = f"give '{other}' a default, or add it to the `parameters` of '{label}'"
            else:
                continue
            found.add(_key(name), message, hint, _offset(space.conditions[name], f"hp.{other}"))
            good = False
    return good


def _drawn_elsewhere(found: Check, label: str, name: str) -> str:
    """Another search that sets a hyperparameter for the stages of this one; empty where none does."""
    for other, axis in found.workflow.axes.items():
        sets = other != label and name in axis.sets
        if sets and any({label, other} <= set(stage.over) for stage in found.workflow.stages.values()):
            return other
    return ""


def _check_trials(found: Check, label: str, space: _Space) -> None:
    """Conditions that fail, or never hold, in the trials that a search could propose."""
    waiting = set(space.conditional)
    every, trials = space.trials()
    order = space.order
    for row in trials:
        drawn: dict[str, Any] = {}
        for name in order:
            holds: Any = True
            if name in space.conditions:
                try:
                    holds = space.conditions[name].value({"hp": {**space.values, **drawn}})
                except ExpressionError as error:
                    found.add(_key(name), *_failure(error, space, name, drawn))
                    return
            if holds:
                drawn[name] = row[name]
                waiting.discard(name)
    for name in sorted(waiting) if every else ():
        if all(other in space.names for other in reads(space.conditions[name])):
            message = f"it holds for no trial of '{label}', so '{name}' is never drawn"
            found.add(_key(name), message, f"take '{name}' out of the `parameters`, or mend the condition")


def _failure(
    error: ExpressionError, space: _Space, name: str, drawn: Mapping[str, Any]
) -> tuple[str, str, int | None]:
    known = {**space.values, **drawn}
    condition = space.conditions[name]
    for other in reads(condition):
        if other not in known:
            message = f"'{other}' has no value in trials that do not draw it"
            hint = f"give it a default, or ask for its own condition first: `{_own(space, other)} and …`"
            return message, hint, _offset(condition, f"hp.{other}")
    told = ", ".join(f"{other} is {known[other]!r}" for other in reads(condition))
    return f"{error.message} (where {told})", error.hint, error.offset


def _own(space: _Space, name: str) -> str:
    """The condition of a hyperparameter, as another one would ask for it."""
    given = space.known[name].when or ""
    return given.strip().removeprefix("${{").removesuffix("}}").strip()
