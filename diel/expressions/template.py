"""A text with `${{ }}` expressions in it: parsed once, evaluated for every task."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from simpleeval import InvalidExpression

from diel.errors import DielError
from diel.expressions import syntax
from diel.expressions.evaluator import Scope, evaluate, missing, readable
from diel.expressions.functions import Refused
from diel.expressions.shell import Place, Unquotable, places
from diel.expressions.syntax import LITERALS, WORDS, Chain, ExpressionError
from diel.expressions.text import is_list, written

_OPENING = re.compile(r"\$?\$\{\{")
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)*", re.ASCII)


@dataclass(frozen=True)
class Template:
    """A text with `${{ }}` expressions in it, parsed."""

    text: str
    parts: tuple[str | Expression, ...] = field(compare=False, repr=False)
    whole: Expression | None = field(compare=False, repr=False)
    """The expression where the text is nothing else; its value keeps its type."""

    @property
    def constant(self) -> bool:
        """Whether there is no `${{ }}` in the text."""
        return self.whole is None and not any(isinstance(part, Expression) for part in self.parts)

    @property
    def expressions(self) -> list[Expression]:
        """What stands in `${{ }}`, in order."""
        return [part for part in self.parts if isinstance(part, Expression)]

    @cached_property
    def references(self) -> frozenset[Chain]:
        """The dotted names that are read, as long as they go: ("train", "loss")."""
        return frozenset(chain for one in self.expressions for chain in one.references())

    @cached_property
    def literals(self) -> list[str]:
        """The texts before, between and after the expressions: one more than there are of these."""
        found = [""]
        for part in self.parts:
            if isinstance(part, str):
                found[-1] += part
            else:
                found.append("")
        return found

    def value(self, scope: Scope) -> Any:
        """The value of a text that is wholly one expression, else the text with values put in.

        Raises ExpressionError where the scope lacks a name or the computation fails.
        """
        return self.text_value(scope) if self.whole is None else self.whole.value(scope)

    def text_value(self, scope: Scope) -> str:
        """The text with values put in: true/false, nothing for null, JSON for lists and mappings."""
        return "".join(part if isinstance(part, str) else part.text_value(scope) for part in self.parts)

    def words(self, scope: Scope) -> list[str]:
        """The words of a command that this element of a list gives: several for a whole list."""
        if self.whole is not None:
            return self.whole.words(scope)
        return [_without_nul(self.text_value(scope), 0)]

    def shell(self, scope: Scope) -> str:
        """The text as a shell command, every value quoted so that it arrives byte for byte.

        A list becomes several words; within quotes its items are joined by spaces. Raises
        ExpressionError also where a value stands where no quoting is safe (see check_shell).
        """
        where = iter(self._places)
        return "".join(
            part if isinstance(part, str) else _quoted(part, next(where), scope) for part in self.parts
        )

    def check_shell(self) -> None:
        """Raises ExpressionError where a value stands where no quoting is safe, as in a comment."""
        _ = self._places

    @cached_property
    def _places(self) -> list[Place]:
        try:
            return places(self.literals)
        except Unquotable as error:
            raise ExpressionError(error.message, self.expressions[error.index].offset) from None


@dataclass(frozen=True)
class Expression:
    """What stands between `${{` and `}}`, parsed."""

    source: str
    offset: int
    """Characters of the whole text before the source."""
    chain: Chain = field(default=(), compare=False, repr=False)
    """The names of a plain dotted name, which needs no evaluator."""
    tree: ast.expr | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _expression, (self.source, self.offset)

    def value(self, scope: Scope) -> Any:
        """The value, with its type. Raises ExpressionError."""
        if self.tree is not None:
            return self._computed(self.tree, scope)
        value: Any = scope
        try:  # as _read does, without a call: this runs for each parameter of each task
            for name in self.chain:
                value = value[name]
        except (LookupError, TypeError):
            raise self._failed(*missing(self.chain, scope)) from None
        return value

    def text_value(self, scope: Scope) -> str:
        """The value, written as text. Raises ExpressionError."""
        return self._written(self.value(scope))

    def words(self, scope: Scope) -> list[str]:
        """The words of a command that the value gives: one an item where it is a list."""
        value = self.value(scope)
        items = value if is_list(value) else [value]
        return [_without_nul(self._written(item), self.offset) for item in items]

    def references(self) -> Iterator[Chain]:
        """The dotted names that are read."""
        if self.tree is None:
            yield self.chain
        else:
            yield from syntax.chains(self.tree)

    def _computed(self, tree: ast.expr, scope: Scope) -> Any:
        try:
            return evaluate(tree, scope)
        except Refused as error:
            raise self._failed(error.message, error.hint) from None
        except DielError:
            raise
        except RecursionError:
            raise self._failed("the expression refers to itself") from None
        except InvalidExpression as error:
            raise self._failed(str(error)) from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._failed(readable(error)) from None

    def _written(self, value: Any) -> str:
        try:
            return written(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._failed(f"the value cannot be written as text: {error}") from None

    def _failed(self, message: str, hint: str = "") -> ExpressionError:
        source = self.source if len(self.source) <= 80 else self.source[:77] + "..."
        return ExpressionError(f"{message}, in ${{{{ {source} }}}}", self.offset, hint)


def parse(text: str) -> Template:
    """Parses a text. Raises ExpressionError, with the offset, for the first thing wrong in it."""
    parts = tuple(_parts(text))
    first, *rest = parts  # a block of YAML ends with a line break that nobody means
    if isinstance(first, Expression) and all(isinstance(one, str) and not one.strip("\n") for one in rest):
        return Template(text, parts, first)
    return Template(text, parts, None)


def parse_expression(text: str) -> Template:
    """Parses the expression of `when:` or `until:`, with or without `${{ }}` around it.

    Raises ExpressionError where it cannot be read, and where there is more than one.
    """
    if "${{" not in text:
        whole = _expression(text, 0)
        return Template(text, (whole,), whole)
    start = len(text) - len(text.lstrip())
    try:
        parts = tuple(_parts(text.strip()))
    except ExpressionError as error:
        raise ExpressionError(error.message, error.offset + start, error.hint) from None
    if len(parts) != 1 or isinstance(parts[0], str):
        raise ExpressionError(
            "expected one expression and nothing around it", 0, "write it without ${{ }}: loss < 0.1"
        )
    whole = _expression(parts[0].source, parts[0].offset + start)
    return Template(text, (whole,), whole)


def _without_nul(word: str, offset: int) -> str:
    if "\0" in word:
        raise ExpressionError("a word of a command cannot hold a NUL character", offset)
    return word


def _quoted(part: Expression, place: Place, scope: Scope) -> str:
    words = part.words(scope)
    if place is Place.BARE:
        return " ".join(place.quote(word) for word in words)
    return place.quote(" ".join(words))


def _parts(text: str) -> Iterator[str | Expression]:
    """The literal texts and expressions of a text, in order; `$${{` becomes a literal `${{`."""
    position = 0
    literal = ""
    while opening := _OPENING.search(text, position):
        literal += text[position : opening.start()]
        if opening.group() == "$${{":
            literal += "${{"
            position = opening.end()
            continue
        if literal:
            yield literal
            literal = ""
        closing = _closing(text, opening.end(), opening.start())
        yield _expression(text[opening.end() : closing], opening.end())
        position = closing + 2
    literal += text[position:]
    if literal or not text:
        yield literal


def _closing(text: str, position: int, opening: int) -> int:
    """The index of the `}}` that ends an expression: not inside quotes, nor of a mapping."""
    depth = 0
    quote = ""
    while position < len(text):
        char = text[position]
        if quote:
            position += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}" and depth:
            depth -= 1
        elif text.startswith("}}", position):
            return position
        position += 1
    hint = f"close the quote {quote}" if quote else "close it with }}, or write $${{ for a literal ${{"
    raise ExpressionError("the expression that starts here does not end", opening, hint)


def _expression(source: str, offset: int) -> Expression:
    """Parses what stands inside `${{ }}`. Raises ExpressionError."""
    text = source.strip()
    offset += len(source) - len(source.lstrip())
    if _PLAIN_NAME.fullmatch(text) and text not in WORDS and text not in LITERALS:
        return Expression(text, offset, chain=tuple(text.split(".")))
    return Expression(text, offset, tree=syntax.read(text, offset))
