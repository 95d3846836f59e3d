"""Checks of what expressions make of gathered values: point by point, and one where one is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diel.check.contracts import kind_of
from diel.check.flaws import Check
from diel.check.names import Names, visible_names
from diel.expressions import ExpressionError, names_in, parse, parse_expression
from diel.expressions.expression import Chain, Expression
from diel.expressions.gathered import Gathered
from diel.expressions.inference import SAMPLES, UNKNOWN, VALUE, gathered, infer
from diel.graph import Edge, Key
from diel.graph.uses import expressions
from diel.spec.rendering import TEXT
from diel.terms import SIMULATED

_TRUTHS = ("all(...), any(...), or a comparison of mean(...)", "one truth")
_ONE = ("mean(...), max(...) or another aggregate", "one value")
_LOOKED_AT = 1000
"""The most points of an axis whose types are looked at."""


def check_gathers(found: Check, name: str, names: Names) -> None:
    """Checks what each expression of a stage gives for values of the kinds that it reads."""
    reads, stage = _Reads(found, name, names), found.workflow.stages[name]
    for key, one in expressions(("stages", name), stage):
        single = key[2:] in stage.demand or (key[2] in ("files", "outputs") and key[-1] != TEXT)
        needs = _TRUTHS if key[2] == "when" else _ONE if single else None
        _check(found, key, one, reads, needs)


def check_conditions(found: Check) -> None:
    """Checks the `until` of searches and loops likewise."""
    for label, axis in found.workflow.axes.items():
        key: Key = ("axes", label, axis.word, "until")
        if axis.condition is not None and names_in(axis.condition) is not None:
            for one in parse_expression(axis.condition).expressions:
                _check(found, key, one, _Reads(found), None)


def _check(found: Check, key: Key, one: Expression, reads: _Reads, needs: tuple[str, str] | None) -> None:
    if one.tree is None and needs is None:
        return
    try:
        made = infer(one, reads.sample, reads.places)
    except ExpressionError as error:
        found.add(key, error.message, error.hint, error.offset)
        return
    if needs is not None and isinstance(made, Gathered):
        message = f"{needs[1]} is needed here, and this is a value for each point of {', '.join(made.axes)}"
        found.add(key, message, f"write {needs[0]}", one.offset)


class _Reads:
    """What is known of the names that the expressions of a stage, or an `until`, read."""

    def __init__(self, found: Check, name: str | None = None, names: Names | None = None) -> None:
        self._found = found
        self._names = names
        into = [] if name is None else found.graph.into(name)
        edges = [one for one in into if one.output and not one.axis and not one.stream and not one.published]
        self._inputs = {edge.name: edge for edge in edges}
        edges.sort(key=lambda edge: edge.name is None)  # as a scope reads them
        self._made = {(edge.upstream, edge.output): edge for edge in edges}
        self.places = [axis for edge in into for axis in edge.gathered]

    def sample(self, chain: Chain) -> Any:
        """A value such as a name has."""
        first, second, *deeper = (*chain, "", "")
        edge = self._inputs.get(second) if first == "inputs" else self._made.get((first, second))
        if edge is not None:
            return self._along(edge, deeper[:-2])
        if first == "hp":
            given = self._found.workflow.hyperparameters.get(second)
            if given is None or given.type != "choice":
                return VALUE if given is None else SAMPLES.get(given.type, VALUE)
            return _of_one_kind(given.choices or ())
        if self._names is None and first in self._found.workflow.stages:
            return self._output(first, second) if len(chain) == 2 else VALUE
        if self._names is not None and first in self._names.parameters and len(chain) == 1:
            return self._parameter(self._names.parameters[first], first)
        if first == "params" and self._names is not None and self._names.stage is not None:
            return self._given(self._names.stage.params.get(second), deeper[:-2])
        return UNKNOWN if first == "inputs" else VALUE

    def _given(self, value: Any, deeper: list[str]) -> Any:
        """A value such as a parameter has: that of its expression, if it is one and no more."""
        try:
            whole = parse(value).whole if isinstance(value, str) else None
            return UNKNOWN if deeper or whole is None else infer(whole, self.sample, self.places)
        except ExpressionError:
            return UNKNOWN  # which has its own message

    def _along(self, edge: Edge, deeper: list[str]) -> Any:
        if edge.begun or edge.share:
            return UNKNOWN
        if edge.hyperparameter is not None:
            return gathered(VALUE, edge.gathered)
        return gathered(VALUE if deeper else self._output(edge.upstream, str(edge.output)), edge.gathered)

    def _output(self, stage: str, output: str) -> Any:
        if output == SIMULATED:
            return True
        parameters = visible_names(self._found, stage).parameters
        kind = kind_of(self._found, stage, output)
        if kind is None and output in parameters:
            return self._parameter(parameters[output], output)
        return VALUE if kind is None else SAMPLES.get(kind.word, VALUE)

    def _parameter(self, axis: str, name: str) -> Any:
        points = self._found.points.get(axis)
        if points is None or len(points) > _LOOKED_AT:
            return VALUE
        place = points.parameters.index(name)
        return _of_one_kind([points.values(number)[place] for number in range(len(points))])


def _of_one_kind(values: Sequence[Any]) -> Any:
    """One of several values that are all of a type; else one of which nothing is known."""
    kinds = {type(value) for value in values}
    return values[0] if len(kinds) == 1 and kinds <= {bool, int, float, str} else VALUE
