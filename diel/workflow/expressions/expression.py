"""One expression: which of Python's constructs it can hold, and its value in a scope."""

import ast
import keyword
import re
import threading
import warnings
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from simpleeval import EvalWithCompoundTypes, InvalidExpression

from diel.base.errors import DielError, HintedError, did_you_mean
from diel.base.values import read_float
from diel.workflow.expressions.aggregates import flaw_of_share
from diel.workflow.expressions.functions import (
    FUNCTIONS,
    OPERATORS,
    SCALARS,
    call,
    of_literals,
    operate,
    written,
)
from diel.workflow.expressions.gathered import (
    GatheredValues,
    ListText,
    is_list,
    noun,
    pointwise,
    readable,
    truth,
)
from diel.workflow.expressions.nulls import name_of_null, origin_of_null
from diel.workflow.expressions.quantity import (
    ComputationError,
    NullOperand,
    OperandMismatch,
    Quantity,
    literals,
)
from diel.workflow.expressions.syntax import (
    JOINT,
    Chain,
    always_read,
    axes_in,
    axis_of,
    chain_of,
    chains_in,
    dotted,
    handed_on,
    is_literal,
    operands,
    reduces,
)

MAX_EXPRESSION = 10_000
"""Longest expression, in characters."""
MAX_NESTING = 100
"""Deepest nesting of an expression; the evaluator recurses."""

Scope = Mapping[str, Any]

LITERALS = {"true": True, "false": False, "null": None}
"""YAML's words for what Python calls True, False and None; both work."""
_WORDS = frozenset({"and", "or", "not", "in", "is", "if", "else", "for", "lambda", "True", "False", "None"})
PLACES = "·"
"""Under this name, which no expression can write, a scope has the numbers of the points of each axis."""
_PLAIN_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_{JOINT}]*(?:\.[A-Za-z][A-Za-z0-9_{JOINT}]*)*", re.ASCII)
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")


class Lazily(UserDict[str, Any]):
    """Values that are worked out when they are read, by functions."""

    def __getitem__(self, name: str) -> Any:
        return self.data[name]()


class ExpressionError(HintedError):
    """An expression that cannot be read or evaluated. `offset` is the place of the error in the text."""

    def __init__(self, message: str, offset: int = 0, hint: str = "") -> None:
        super().__init__(message, hint)
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.offset, self.hint)


@dataclass(frozen=True)
class Expression:
    """The text between `${{` and `}}`, parsed."""

    source: str
    offset: int
    """Characters of the whole text before the source."""
    chain: Chain = field(default=(), compare=False, repr=False)
    """The parts of a plain dotted name, which needs no evaluator."""
    tree: ast.expr | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_one, (self.source, self.offset)

    def value(self, scope: Scope) -> Any:
        """Return the value, with its type. Raise ExpressionError."""
        if self.tree is not None:
            return self._computed(self.tree, scope)
        value: Any = scope
        try:  # as `_read`, without a call: it runs for each parameter of each task
            for name in self.chain:
                value = value[name]
        except (LookupError, TypeError):
            raise self._failed(*_missing(self.chain, scope)) from None
        return value

    def truth(self, scope: Scope) -> bool:
        """Return whether the value counts as true. Raise ExpressionError, also for a value at each point."""
        value = self.value(scope)
        try:
            return truth(value)
        except ComputationError as error:
            raise self._refused(error, scope) from None

    def words(self, scope: Scope) -> list[str]:
        """Return the value as words of a command: one for each item of a list."""
        value = self._handed_on(scope)
        items = value if is_list(value) else [value]
        texts = ("null" if item is None else self._written(item) for item in items)
        return [without_nul(text, self.offset) for text in texts]

    def text_value(self, scope: Scope, null: str = "") -> str:
        """Return the value, written as text. Raise ExpressionError."""
        value = self._handed_on(scope)
        return null if value is None else self._written(value)

    def _handed_on(self, scope: Scope) -> Any:
        """Return the value as a command takes it: a scope may join gathered values with others."""
        value = self.value(scope)
        if type(value) is not GatheredValues and type(value) is not ListText:
            return value
        join = getattr(scope, "join", None)
        return value if join is None else join(value)

    def references(self) -> Iterator[Chain]:
        """Yield the dotted names that are read; `x["a"]` counts as `x.a`."""
        if self.tree is None:
            yield self.chain
        else:
            axes = set(axes_in(self.tree))
            nodes = ((node, chain) for node, chain in chains_in(self.tree) if chain[0] not in LITERALS)
            yield from (chain for node, chain in nodes if node not in axes)

    @property
    def axes(self) -> set[str]:
        """The axes that it names, as in `along(list, axis)`."""
        return {axis_of(node) for node in axes_in(self.tree)} if self.tree is not None else set()

    @property
    def meetings(self) -> list[set[Chain]]:
        """The dotted names whose values meet: those that are handed on, then those in each aggregate."""
        if self.tree is None:
            return [{self.chain}]
        calls = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and reduces(node))
        return [set(handed_on(self.tree)), *(set(handed_on(arg)) for call in calls for arg in call.args)]

    @property
    def always_read(self) -> set[Chain]:
        """The dotted names that are read whatever the conditions in it are."""
        return {self.chain} if self.tree is None else always_read(self.tree)

    def _computed(self, tree: ast.expr, scope: Scope) -> Any:
        try:
            return _evaluators.evaluator.run(tree, scope)
        except ComputationError as error:
            raise self._refused(error, scope) from None
        except DielError:
            raise
        except RecursionError:
            raise self._failed("the expression refers to itself") from None
        except InvalidExpression as error:
            raise self._failed(str(error)) from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._failed(readable(error)) from None

    def _refused(self, error: ComputationError, scope: Scope) -> ExpressionError:
        """Return the error of a refused computation; where null stopped it, with where that comes from."""
        if not isinstance(error, NullOperand):
            return self._failed(error.message, error.hint)
        if self.tree is None:
            origin, hint = name_of_null(self.source.replace(JOINT, "."), self.chain, scope)
        else:
            run = partial(_evaluators.evaluator.run, scope=scope)
            origin, hint = origin_of_null(self.tree, scope, run)
        return self._failed(f"{error.message}: {origin}", hint)

    def _written(self, value: Any) -> str:
        try:
            return written(value)
        except (TypeError, ValueError, RecursionError):
            raise self._failed("the value cannot be written as text") from None

    def _failed(self, message: str, hint: str = "") -> ExpressionError:
        source = self.source if len(self.source) <= 80 else self.source[:77] + "..."
        return ExpressionError(f"{message}, in ${{{{ {source.replace(JOINT, '.')} }}}}", self.offset, hint)


def parse_one(source: str, offset: int) -> Expression:
    """Parse the text inside `${{ }}`, `offset` characters into its text. Raise ExpressionError."""
    text = source.strip()
    offset += len(source) - len(source.lstrip())
    if _PLAIN_NAME.fullmatch(text) and text not in _WORDS and text not in LITERALS:
        return Expression(text, offset, chain=dotted(text.split(".")))
    if len(text) > MAX_EXPRESSION:
        message = f"the expression is longer than {MAX_EXPRESSION:,} characters"
        raise ExpressionError(message, offset, "compute it in a module")
    tree = _syntax_tree(text, offset)
    _check(tree, text, offset)
    return Expression(text, offset, tree=tree)


def without_nul(word: str, offset: int) -> str:
    """Return a word of a command. Raise ExpressionError for a NUL, which no program can get."""
    if "\0" in word:
        raise ExpressionError("a word of a command cannot hold a NUL character", offset)
    return word


def _syntax_tree(text: str, offset: int) -> ast.expr:
    if not text:
        raise ExpressionError("the expression is empty", offset)
    flat = re.sub(r"[\r\n\t\f]", " ", text)  # an expression may go over several lines
    if "#" in _QUOTED.sub("", flat):
        raise ExpressionError("an expression cannot hold a comment", offset + text.index("#"))
    try:
        flat, quantities = literals(flat) if re.search(r"\d\s?[A-Za-z]", flat) else (flat, {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of doubtful code
            tree = ast.parse(flat, mode="eval")
        return (_Quantities(flat, quantities).visit(tree) if quantities else tree).body
    except SyntaxError as error:
        # Python gives no column, or one on a later line, if the text ends too soon
        column = min(error.offset - 1, len(text)) if error.offset and error.lineno == 1 else len(text)
        raise ExpressionError("the expression cannot be read", offset + column, _advice(text)) from None
    except (RecursionError, MemoryError):
        raise ExpressionError("the expression is nested too deeply", offset) from None
    except ValueError:
        raise ExpressionError("the expression holds a character that is not allowed there", offset) from None


class _Quantities(ast.NodeTransformer):
    """Puts sizes and durations where names hold their places."""

    def __init__(self, text: str, quantities: Mapping[int, Quantity]) -> None:
        self._at = {len(text[:place].encode()): quantity for place, quantity in quantities.items()}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        quantity = self._at.get(node.col_offset)
        return node if quantity is None else ast.copy_location(ast.Constant(quantity), node)  # type: ignore[arg-type]


_ADVICE = (
    (r"(?i)\d\s*[kmgtp]i?b?\b", "write sizes as 2GiB or 500MB, durations as 90s, 10m or 1h30m"),
    (r"![^=]", "write `not` for !"),
    (r"(?<![=!<>])=(?!=)", "write == to compare"),
    (r"&&", "write `and` for &&"),
    (r"\|\|", "write `or` for ||"),
    (r"\?", "write `a if condition else b` for a choice"),
    (r"\|", "write `or` for |; there are no filters"),
    (
        r"(?<![\w.])\d[\w.]*\s*(?!(?:if|else|and|or|in|is|not|for)\b)[^\W\d]",
        "a number has the units of what it meets: write it in these, and without them",
    ),
)


def _advice(text: str) -> str:
    for mark, hint in _ADVICE:
        if re.search(mark, text):
            return hint
    for word in re.findall(r"[A-Za-z_]\w*", text):
        if keyword.iskeyword(word) and word not in _WORDS:
            return f"`{word}` is a keyword of Python: such a name works alone, but not in a computation"
    return "expected names, numbers, quoted texts and operators, such as ${{ 2 * temperature }}"


_NODES: tuple[type[ast.AST], ...] = (
    *(ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.List, ast.Tuple, ast.Dict),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword),
)
_ALLOWED = (*_NODES, *OPERATORS, ast.And, ast.Or, ast.Not)
_COMPREHENSION = "comprehensions are not allowed; compute it in a module"
_REFUSED: dict[type[ast.AST], str] = {
    ast.JoinedStr: "f-strings are not allowed; put several ${{ }} into the text",
    ast.Lambda: "functions cannot be made in an expression; the attempt is task.attempt",
    **dict.fromkeys((ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp), _COMPREHENSION),
    ast.Is: "`is` is not allowed; write ==",
    ast.IsNot: "`is not` is not allowed; write !=",
    ast.BitAnd: "`&` is not allowed; write `and`",
    ast.BitOr: "`|` is not allowed; write `or`",
    ast.BitXor: "`^` is not allowed; write ** for a power",
    ast.Starred: "`*` before a list is not allowed",
    ast.NamedExpr: "`:=` is not allowed",
}


def _check(tree: ast.expr, text: str, offset: int) -> None:
    waiting: list[tuple[ast.AST, int, int]] = [(tree, 0, 0)]
    while waiting:
        node, depth, column = waiting.pop()
        place: int | None = getattr(node, "col_offset", None)
        if place is not None:  # Python counts bytes
            column = len(text.encode()[:place].decode(errors="ignore"))
        if depth > MAX_NESTING:
            raise ExpressionError("the expression is nested too deeply", offset + column)
        if isinstance(node, ast.Constant) and type(node.value) is float:
            try:
                read_float(text.encode()[place : node.end_col_offset].decode())
            except ValueError as error:
                raise ExpressionError(str(error), offset + column) from None
        message, _, hint = _objection(node).partition("; ")
        if message:
            raise ExpressionError(message, offset + column, hint)
        waiting += ((child, depth + 1, column) for child in operands(node))


def _objection(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _call_objection(node)
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return f"a name cannot start with an underscore: {name}" if name.startswith("_") else ""
    if isinstance(node, ast.Constant) and not isinstance(node.value, str | int | float | None | Quantity):
        return f"{type(node.value).__name__} values are not allowed"
    if isinstance(node, ast.Dict) and None in node.keys:
        return "`**` before a mapping is not allowed"
    if isinstance(node, _ALLOWED):
        return ""
    return _REFUSED.get(type(node), f"{type(node).__name__} is not allowed in an expression")


def _call_objection(node: ast.Call) -> str:
    listing = ", ".join(sorted(FUNCTIONS))
    if not isinstance(node.func, ast.Name):
        return f"methods cannot be called; the functions are {listing}"
    if node.func.id not in FUNCTIONS:
        hint = did_you_mean(node.func.id, FUNCTIONS) or f"the functions are {listing}"
        return f"unknown function '{node.func.id}'; {hint}"
    if any(argument.arg is None for argument in node.keywords):
        return "`**` before a mapping is not allowed"
    share = node.args[1] if node.func.id == "quantile" and len(node.args) == 2 else None
    if isinstance(share, ast.Constant):
        return flaw_of_share(share.value)
    if node.func.id == "along" and (len(node.args) != 2 or node.keywords or chain_of(node.args[1]) is None):
        return "along takes a list and the name of an axis; write along(STAGE.LIST, AXIS)"
    return ""


class Evaluator(EvalWithCompoundTypes):  # type: ignore[misc]
    """simpleeval's evaluator, reduced to what _NODES lists, reading names from a scope."""

    nodes: dict[type[ast.AST], Any]
    names: Any

    def __init__(self) -> None:
        super().__init__(operators=OPERATORS, functions={})
        allowed = {node: handler for node, handler in self.nodes.items() if node in _NODES}
        self.nodes = allowed | {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Slice: self._slice,
            ast.Tuple: self._eval_list,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._operation,
            ast.BoolOp: self._logic,
            ast.Compare: self._comparison,
            ast.IfExp: self._choice,
            ast.Call: self._called,
        }

    def run(self, tree: ast.expr, scope: Scope) -> Any:
        """Return the value of a tree. Restore the state: a scope may evaluate other trees meanwhile."""
        outer = self.names
        self.names = scope
        try:
            return self.eval("", previously_parsed=tree)
        finally:
            self.names = outer

    def _check_disallowed_items(self, item: Any) -> None:
        """Check nothing: names read only data. simpleeval would walk a list of a million items each time."""

    def _name(self, node: ast.Name) -> Any:
        return LITERALS[node.id] if node.id in LITERALS else self._read(dotted((node.id,)))

    def _attribute(self, node: ast.Attribute) -> Any:
        chain = chain_of(node)
        return _key(self._eval(node.value), node.attr) if chain is None else self._read(chain)

    def _subscript(self, node: ast.Subscript) -> Any:
        chain = chain_of(node)
        if chain is not None:
            return self._read(chain)
        container, key = self._eval(node.value), self._eval(node.slice)
        if isinstance(key, str):
            return _key(container, key)
        try:
            return container[key]
        except (LookupError, TypeError) as error:
            which = repr(key) if isinstance(key, int | float) else f"({noun(key)})"
            if isinstance(error, TypeError):
                raise OperandMismatch(f"cannot take item {which} of {noun(container)}") from None
            of = f"item {which} in a list of {len(container)}" if is_list(container) else f"key {which}"
            raise ComputationError(f"there is no {of}") from None

    def _slice(self, node: ast.Slice) -> slice:
        cut: slice = self._eval_slice(node)
        bounds = (node.lower, cut.start), (node.upper, cut.stop), (node.step, cut.step)
        if any(part is not None and bound is None for part, bound in bounds):
            raise NullOperand("cannot cut a list at null")
        return cut

    def _read(self, chain: Chain) -> Any:
        value = self.names
        try:
            for name in chain:
                value = value[name]
        except (LookupError, TypeError):
            raise ComputationError(*_missing(chain, self.names)) from None
        return value

    def _operate(self, kind: type[ast.AST], *values: Any, by: Callable[..., Any] = operate) -> Any:
        return by(kind, *values)

    def _call(self, name: str, values: list[Any], options: Mapping[str, Any]) -> Any:
        return call(name, values, options)

    def _choice(self, node: ast.IfExp) -> Any:
        return self._eval(node.body if truth(self._eval(node.test)) else node.orelse)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self._eval(node.operand)
        return not truth(value) if isinstance(node.op, ast.Not) else self._operate(type(node.op), value)

    def _operation(self, node: ast.BinOp) -> Any:
        first, second = self._eval(node.left), self._eval(node.right)
        sides = (node.left, first), (node.right, second)
        lists = [part for part, value in sides if not isinstance(value, SCALARS) and is_list(value)]
        gathered = lists and (isinstance(first, GatheredValues) or isinstance(second, GatheredValues))
        if lists and not gathered and all(map(is_literal, lists)):
            return self._operate(type(node.op), first, second, by=of_literals)
        return self._operate(type(node.op), first, second)

    def _logic(self, node: ast.BoolOp) -> Any:
        """Return the operand that decides, else the last one. Null decides nothing: it is refused there."""
        values = []
        for operand in node.values:
            values.append(self._eval(operand))
            if values[-1] is not None and truth(values[-1]) is isinstance(node.op, ast.Or):
                return values[-1]
        truth(None if None in values else True)
        return values[-1]

    def _comparison(self, node: ast.Compare) -> Any:
        """Return a comparison; a chain holds at a point where all its comparisons do."""
        second, holds = self._eval(node.left), None
        for kind, operand in zip(node.ops, node.comparators, strict=True):
            first, second = second, self._eval(operand)
            outcome = self._operate(type(kind), first, second)
            if isinstance(holds, GatheredValues) or (
                holds is not None and isinstance(outcome, GatheredValues)
            ):
                outcome = pointwise(lambda before, now: before and now, (holds, outcome), of_null=True)
            holds = outcome
            if holds is False:
                break
        return holds

    def _called(self, node: ast.Call) -> Any:
        assert isinstance(node.func, ast.Name)
        if node.func.id == "along":
            values = self._eval(node.args[0]), axis_of(node.args[1]), self.names.get(PLACES, {})
            return self._call("along", [*values], {})
        options = {str(arg.arg): self._eval(arg.value) for arg in node.keywords}
        return self._call(node.func.id, [self._eval(arg) for arg in node.args], options)


class _Evaluators(threading.local):
    """One evaluator for each thread: it holds the scope while it works."""

    def __init__(self) -> None:
        self.evaluator = Evaluator()


_evaluators = _Evaluators()


def _key(value: Any, key: str) -> Any:
    """Return a key of a mapping; never an attribute of an object."""
    if isinstance(value, SCALARS) or (is_list(value) and not isinstance(value, GatheredValues)):
        raise ComputationError(f"{noun(value)} has no '{key}'")
    try:
        return value[key]
    except (LookupError, TypeError):
        raise ComputationError(f"there is no '{key}'", did_you_mean(key, _names(value))) from None


def _missing(chain: Chain, scope: Any) -> tuple[str, str]:
    value = scope
    for index, name in enumerate(chain):
        before = ".".join(chain[:index])
        try:
            value = value[name]
        except LookupError:
            message = f"'{before}' has no '{name}'" if before else f"unknown name '{name}'"
            return message, did_you_mean(name, _names(value))
        except TypeError:
            hint = f"write size({before})" if name == "size" else ""
            return f"'{before}' is {noun(value)} and has no '{name}'", hint
    return f"'{'.'.join(chain)}' cannot be read", ""


def _names(value: Any) -> list[str]:
    if not hasattr(type(value), "__iter__") or isinstance(value, str | list | tuple):
        return []
    return [key for key in value if isinstance(key, str)]
