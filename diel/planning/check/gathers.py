"""Checks of expressions with gathered values: these meet by point; one value comes where one is needed."""

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from diel.base.terms import SIMULATED
from diel.base.units import differ, product
from diel.planning.check.contracts import kind_of
from diel.planning.check.names import Names, visible_names
from diel.planning.check.violations import Check
from diel.workflow.expressions import names_in, parse, parse_expression
from diel.workflow.expressions.expression import PLACES, Evaluator, Expression, ExpressionError
from diel.workflow.expressions.functions import OF_ONE, SCALARS, call, is_of_one, operate, refuse_lists
from diel.workflow.expressions.gathered import (
    GatheredValues,
    UnplacedValues,
    is_list,
    pointwise,
    readable,
    truth,
)
from diel.workflow.expressions.quantity import ComputationError, OperandMismatch
from diel.workflow.expressions.syntax import JOINT, Chain, chain_of, chains_in, operands
from diel.workflow.graph import Edge, Key
from diel.workflow.graph.uses import expressions
from diel.workflow.models.data import TEXT

_TRUTHS = ("all(...), any(...), or a comparison of mean(...)", "one truth")
_ONE = ("mean(...), max(...) or another aggregate", "one value")
_IN_ITS_UNITS = (
    *("abs", "ceil", "concat", "float", "floor", "int", "max", "mean", "median", "min", "nanmax", "nanmean"),
    *("nanmin", "quantile", "round", "sorted", "std", "sum", "where"),
)
"""Functions whose result is in the units of what they take, which meets in them."""
_SIGNS = {ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Pow: "**"}
Part = tuple[ast.AST, str | None]
Meeting = tuple[ast.AST, str, ast.AST, str]
"""Two nodes whose numbers meet, each with its units."""
_LOOKED_AT = 1000
"""The most points of an axis whose types are looked at."""


def check_gathers(check: Check, name: str, names: Names) -> None:
    """Evaluate each expression of a stage on values of the kinds that it reads."""
    reads, stage = _Reads(check, name, names), check.workflow.stages[name]
    for key, expression in expressions(("stages", name), stage):
        single = key[2:] in stage.demand or (key[2] in ("files", "outputs") and key[-1] != TEXT)
        needs = _TRUTHS if key[2] == "when" else _ONE if single else None
        _check(check, key, expression, reads, needs)


def check_conditions(check: Check) -> None:
    """Evaluate the `until` of searches and loops in the same way."""
    for label, axis in check.workflow.axes.items():
        key: Key = ("axes", label, axis.word, "until")
        if axis.condition is not None and names_in(axis.condition) is not None:
            for expression in parse_expression(axis.condition).expressions:
                _check(check, key, expression, _Reads(check), None)


def _check(check: Check, key: Key, part: Expression, reads: "_Reads", needs: tuple[str, str] | None) -> None:
    if part.tree is None and needs is None:
        return
    try:
        value = infer(part, reads.sample, reads.places)
    except ExpressionError as error:
        check.add(key, error.message, error.hint, error.offset)
        return
    meetings: list[Meeting] = []
    _units(part.tree or ast.Constant(0), reads, meetings)
    for first, units, second, others in meetings:
        if differ(units, others):
            shown = [ast.unparse(meeting).replace(JOINT, ".") for meeting in (first, second)]
            readers = [need for node, need in ((second, units), (first, others)) if reads.stages_in(node)]
            hint = "make both in the same units"
            if readers:
                read = "compare them in a stage, which can read" if key[0] == "axes" else "read"
                shape = f"{{from: STAGE.OUTPUT, units: {readers[0]}}}"
                hint = f"{hint}, or {read} one as an input with `units` of the other: {shape}"
            check.add(key, f"{shown[0]} is in '{units}', and {shown[1]} in '{others}'", hint, part.offset)
    if needs is not None and isinstance(value, GatheredValues):
        message = f"{needs[1]} is needed here, and this is a value for each point of {', '.join(value.axes)}"
        check.add(key, message, f"write {needs[0]}", part.offset)


def _units(node: ast.AST, reads: "_Reads", meetings: list[Meeting]) -> str | None:
    """Return the units of a node's numbers, None if unknown, empty for plain ones; add what meets in it."""
    if (chain := chain_of(node)) is not None:
        return reads.units(chain)
    if isinstance(node, ast.Constant):
        return "" if type(node.value) in (int, float) else None
    nodes = [part for part in operands(node) if isinstance(part, ast.expr | ast.keyword)]
    if isinstance(node, ast.Call | ast.Compare):
        nodes = [item for part in nodes for item in (part.elts if isinstance(part, ast.List) else [part])]
    parts = [(part, _units(part, reads, meetings)) for part in nodes]
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _product(node.op, parts[0], parts[1], meetings)
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if called in ("count", "len") or (parts and all(units == "" for _, units in parts)):
        return ""
    keeps = called in _IN_ITS_UNITS or isinstance(node, ast.BinOp | ast.IfExp)
    known = [(part, units) for part, units in parts if units and part is not getattr(node, "test", None)]
    if keeps or isinstance(node, ast.Compare):
        meetings += [(*known[0], *pair) for pair in known[1:]]
    return known[0][1] if known and (keeps or isinstance(node, ast.UnaryOp | ast.Subscript)) else None


def _product(by: ast.operator, left: Part, right: Part, meetings: list[Meeting]) -> str | None:
    """Return the units of a product, a quotient or a power; add a ratio of units that are not the same."""
    (first, units), (second, others), sign = left, right, _SIGNS[type(by)]
    if units is None or others is None:
        return None
    if sign == "**":
        return (
            product(units, ast.unparse(second), sign) if units and isinstance(second, ast.Constant) else None
        )
    if sign == "/" and units and others and differ(units, others, or_apart=False):
        meetings.append((first, units, second, others))
    return product(units, others, sign)


class _Reads:
    """Examples of values for the names that the expressions of a stage, or an `until`, read."""

    def __init__(self, check: Check, name: str | None = None, names: Names | None = None) -> None:
        self._check = check
        self._names = names
        into = [] if name is None else check.graph.into(name)
        edges = [use for use in into if use.output and not use.axis and not use.stream and not use.published]
        self._inputs = {edge.name: edge for edge in edges}
        edges.sort(key=lambda edge: edge.name is None)  # as a scope reads them
        self._outputs = {(edge.upstream, edge.output): edge for edge in edges}
        self.places = [axis for edge in into for axis in edge.gathered]

    def sample(self, chain: Chain) -> Any:
        """Return an example of a name's value."""
        first, second, *deeper = (*chain, "", "")
        edge = self._inputs.get(second) if first == "inputs" else self._outputs.get((first, second))
        if edge is not None:
            return self._along(edge, deeper[:-2])
        if first == "hp":
            spec = self._check.workflow.hyperparameters.get(second)
            if spec is None or spec.type != "choice":
                return VALUE if spec is None else SAMPLES.get(spec.type, VALUE)
            return _of_one_kind(spec.choices or ())
        if self._names is None and first in self._check.workflow.stages:
            return self._output(first, second) if len(chain) == 2 else VALUE
        if self._names is not None and first in self._names.parameters and len(chain) == 1:
            return self._parameter(self._names.parameters[first], first)
        if first == "params" and self._names is not None and self._names.stage is not None:
            return self._param(self._names.stage.params.get(second), deeper[:-2])
        return UNKNOWN if first == "inputs" else VALUE

    def units(self, chain: Chain) -> str | None:
        """Return the declared units of a name's numbers."""
        workflow, (first, second) = self._check.workflow, (*chain, "")[:2]
        units, edge = None, self._inputs.get(second) if first == "inputs" and len(chain) == 2 else None
        if edge is not None and edge.output is not None:
            units = workflow.stages[edge.downstream].inputs[second].units
            units = units or workflow.units_of(edge.upstream, edge.output)
        elif first == "params" and self._names and self._names.stage and len(chain) == 2:
            with suppress(ExpressionError):  # another check reports it
                whole = parse(str(self._names.stage.params.get(second))).whole
                tree = None if whole is None else whole.tree
                return _units(tree, self, []) if tree else self.units(whole.chain) if whole else None
        else:
            units = workflow.units_read(self._names.own if self._names else "", chain)
        return units if isinstance(units, str) else None

    def stages_in(self, tree: ast.AST) -> bool:
        """Return whether a tree reads what a stage made, which an input could read in other units."""
        return any(chain[0] in {"inputs", *self._check.workflow.stages} for _, chain in chains_in(tree))

    def _param(self, value: Any, deeper: list[str]) -> Any:
        """Return an example of a parameter's value: that of its expression, if the text is nothing else."""
        try:
            whole = parse(value).whole if isinstance(value, str) else None
            return UNKNOWN if deeper or whole is None else infer(whole, self.sample, self.places)
        except ExpressionError:
            return UNKNOWN  # another check reports it

    def _along(self, edge: Edge, deeper: list[str]) -> Any:
        if edge.begun or edge.share:
            return UNKNOWN
        if edge.hyperparameter is not None:
            return gathered(VALUE, edge.gathered)
        return gathered(VALUE if deeper else self._output(edge.upstream, str(edge.output)), edge.gathered)

    def _output(self, stage: str, output: str) -> Any:
        if output == SIMULATED:
            return True
        parameters = visible_names(self._check, stage).parameters
        kind = kind_of(self._check, stage, output)
        if kind is None and output in parameters:
            return self._parameter(parameters[output], output)
        return VALUE if kind is None else SAMPLES.get(kind.word, VALUE)

    def _parameter(self, axis: str, name: str) -> Any:
        points = self._check.points.get(axis)
        if points is None or len(points) > _LOOKED_AT:
            return VALUE
        place = points.parameters.index(name)
        return _of_one_kind([points.values(number)[place] for number in range(len(points))])


def _of_one_kind(values: Sequence[Any]) -> Any:
    """Return one of several values of a type; an unknown value if their types differ."""
    kinds = {type(value) for value in values}
    return values[0] if len(kinds) == 1 and kinds <= {bool, int, float, str} else VALUE


class Unknown:
    """An unknown value, unknown in its parts too."""

    def __getitem__(self, key: object) -> "Unknown":
        return self


VALUE = Unknown()
"""A single value of any kind, not gathered."""
UNKNOWN = Unknown()
"""A value that may be gathered."""
SAMPLES: Mapping[str, Any] = {
    **dict(zip(("int", "float", "bool", "str", "file"), (1, 1.5, True, "x", "x"), strict=True)),
    **{kind: [VALUE] for kind in ("list", "files")},
}
"""A value of each kind of output."""


def gathered(value: Any, axes: tuple[str, ...]) -> Any:
    """Return a value as it is where it is gathered over axes."""
    return GatheredValues([value], axes, [(0,) * len(axes)]) if axes else value


def infer(expression: Expression, sample: Callable[[Chain], Any], places: Collection[str]) -> Any:
    """Evaluate an expression on samples of its names' values. Raise ExpressionError."""
    if expression.tree is None:
        return sample(expression.chain)
    try:
        return _Inference(sample).run(expression.tree, {PLACES: {axis: [0] for axis in places}})
    except _At as error:
        node, cause = error.args
        before = expression.source.encode()[: node.col_offset].decode(errors="ignore")
        shown = ast.unparse(node).replace(JOINT, ".")
        message = (getattr(cause, "message", "") or readable(cause)).partition(", at point ")[0]
        message = f"{message}, in {shown if len(shown) <= 60 else shown[:57] + '...'}"
        raise ExpressionError(message, expression.offset + len(before), getattr(cause, "hint", "")) from None


class _At(Exception):
    """A node, and why it fails."""


class _Inference(Evaluator):
    """Computes with samples. Conditions hold, and all branches are looked at."""

    def __init__(self, sample: Callable[[Chain], Any]) -> None:
        super().__init__()
        self._sample = sample

    def _eval(self, node: ast.expr) -> Any:
        try:
            return super()._eval(node)
        except (OperandMismatch, TypeError) as error:
            raise _At(node, error) from None
        except (ComputationError, ArithmeticError, LookupError, ValueError):
            return UNKNOWN  # other values may fit

    def _read(self, chain: Chain) -> Any:
        return self._sample(chain)

    def _operate(self, kind: type[ast.AST], *values: Any, by: Callable[..., Any] = operate) -> Any:
        if any(_is_vague(value) for value in values):
            if kind in (ast.In, ast.NotIn):  # a container is looked into as a whole
                return _vague(values[:1], by_item=True)
            if issubclass(kind, ast.operator) and by is operate:
                refuse_lists(*(value for value in values if not isinstance(value, GatheredValues)))
            return _vague(values, by_item=True)
        if kind in (ast.Eq, ast.NotEq):
            texts = [isinstance(_item(value), str) for value in values if isinstance(_item(value), SCALARS)]
            if None not in values and len(texts) == 2 and texts[0] is not texts[1]:
                raise OperandMismatch(
                    "a text never equals a number or a truth value", "quote texts, and only texts"
                )
        outcome = by(kind, *values)
        if not issubclass(kind, ast.cmpop):
            return outcome
        return outcome.map(lambda _: True) if isinstance(outcome, GatheredValues) else True

    def _call(self, name: str, values: list[Any], options: Mapping[str, Any]) -> Any:
        by_item = is_of_one(name, values)
        if name == "along":
            vague, values = False, [[VALUE] if values[0] is VALUE else values[0], *values[1:]]
        elif name in ("where", "concat"):
            vague = any(isinstance(value, Unknown) for value in values)
        else:
            depth = 0 if name in OF_ONE else 9 if name in ("fortran", "join", "str") else 1
            vague = any(_is_vague(value, depth) for value in values)
        outcome = UnplacedValues.of(values, [VALUE])
        if vague and name in ("concat", "sorted") and isinstance(outcome, UnplacedValues):
            return outcome
        return _vague(values, by_item) if vague else call(name, values, options)

    def _subscript(self, node: ast.Subscript) -> Any:
        if chain_of(node) is None:
            key = self._eval(node.slice)
            if isinstance(key, slice):
                return self._eval(node.value)
            if isinstance(key, Unknown):
                return UNKNOWN
        return super()._subscript(node)

    def _operation(self, node: ast.BinOp) -> Any:
        outcome, parts = super()._operation(node), (node.left, node.right)
        cuts = [ast.unparse(part.slice) for part in parts if isinstance(part, ast.Subscript)]
        if isinstance(outcome, GatheredValues) and len(set(cuts)) > 1 and all(":" in cut for cut in cuts):
            message = (
                f"slices keep their points: [{cuts[0]}] and [{cuts[1]}] meet where both have the same one"
            )
            raise OperandMismatch(message, "compute with neighbours in a module, which gets the whole list")
        return outcome

    def _choice(self, node: ast.IfExp) -> Any:
        truth(self._eval(node.test))
        first, second = self._eval(node.body), self._eval(node.orelse)
        if type(first) is type(second) and getattr(first, "axes", ()) == getattr(second, "axes", ()):
            return first
        return UNKNOWN if isinstance(first, GatheredValues) or isinstance(second, GatheredValues) else VALUE

    def _logic(self, node: ast.BoolOp) -> Any:
        for operand in node.values:
            truth(self._eval(operand))
        return VALUE


def _item(value: Any) -> Any:
    """Return a value at one point."""
    return value[0] if isinstance(value, GatheredValues) and value else value


def _is_vague(value: Any, depth: int = 0) -> bool:
    """Return whether a value is unknown, or its gathered items are, or those of lists so deep in it."""
    if isinstance(value, GatheredValues) or (depth and is_list(value)):
        return any(_is_vague(item, max(depth - 1, 0)) for item in value)
    return isinstance(value, Unknown)


def _vague(values: Collection[Any], by_item: bool) -> Any:
    if any(value is UNKNOWN for value in values):
        return UNKNOWN
    if by_item and any(isinstance(value, GatheredValues) for value in values):
        return pointwise(lambda *_: VALUE, list(values), of_null=True)
    return VALUE
