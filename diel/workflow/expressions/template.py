"""Texts and JSON values with `${{ }}` expressions in them: parsed once, evaluated for every task."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from diel.workflow.expressions.expression import Expression, ExpressionError, Scope, parse_one, without_nul
from diel.workflow.expressions.functions import plain
from diel.workflow.expressions.shell import Quotes, Unquotable, places
from diel.workflow.expressions.syntax import Chain

_OPENING = re.compile(r"\$?\$\{\{")

Json = Any


@dataclass(frozen=True)
class Template:
    """A text with `${{ }}` expressions in it, parsed."""

    text: str
    parts: tuple[str | Expression, ...] = field(compare=False, repr=False)
    whole: Expression | None = field(compare=False, repr=False)
    """The expression, if the text is nothing else; its value keeps its type."""

    @property
    def constant(self) -> bool:
        """Whether there is no `${{ }}` in the text."""
        return self.whole is None and not self.expressions

    @property
    def expressions(self) -> list[Expression]:
        """The contents of each `${{ }}`, in order."""
        return [part for part in self.parts if isinstance(part, Expression)]

    @cached_property
    def references(self) -> frozenset[Chain]:
        """The dotted names that are read, in full: ("train", "loss")."""
        return frozenset(chain for expression in self.expressions for chain in expression.references())

    @cached_property
    def literals(self) -> list[str]:
        """The texts before, between and after the expressions: one more than the expressions."""
        literals = [""]
        for part in self.parts:
            if isinstance(part, str):
                literals[-1] += part
            else:
                literals.append("")
        return literals

    def value(self, scope: Scope) -> Any:
        """Return the value of the one expression, else the text with values. Raise ExpressionError."""
        return self.text_value(scope) if self.whole is None else self.whole.value(scope)

    def truth(self, scope: Scope) -> bool:
        """Return whether a condition holds. Raise as `value` does, and for a condition at each point."""
        assert self.whole is not None
        return self.whole.truth(scope)

    def text_value(self, scope: Scope) -> str:
        """Return the text with values put in: true/false, nothing for null, JSON for lists and mappings."""
        return "".join(part if isinstance(part, str) else part.text_value(scope) for part in self.parts)

    def words(self, scope: Scope) -> list[str]:
        """Return the words of a command that this element of a list gives: several for a whole list."""
        if self.whole is not None:
            return self.whole.words(scope)
        parts = (part if isinstance(part, str) else part.text_value(scope, "null") for part in self.parts)
        return [without_nul("".join(parts), 0)]

    def shell(self, scope: Scope) -> str:
        """Return the shell command with each value quoted byte for byte; a list is several words, or within
        quotes one with spaces. Raise ExpressionError, also where no quoting is safe."""
        where = iter(self._places)
        return "".join(
            part if isinstance(part, str) else next(where).quote(part.words(scope)) for part in self.parts
        )

    def check_shell(self) -> None:
        """Raise ExpressionError for a value where no quoting is safe, as in a comment."""
        _ = self._places

    @cached_property
    def _places(self) -> list[Quotes]:
        try:
            return places(self.literals)
        except Unquotable as error:
            raise ExpressionError(error.message, self.expressions[error.index].offset) from None


def parse(text: str) -> Template:
    """Parse a text. Raise ExpressionError, with the offset, for the first mistake."""
    parts = tuple(_parts(text))
    first, *rest = parts  # a block of YAML ends with an unintended line break
    whole = isinstance(first, Expression) and all(
        isinstance(part, str) and not part.strip("\n") for part in rest
    )
    return Template(text, parts, first if whole and isinstance(first, Expression) else None)


def parse_expression(text: str) -> Template:
    """Parse `when:` or `until:`, with or without `${{ }}`. Raise ExpressionError, also for two."""
    if "${{" not in text:
        whole = parse_one(text, 0)
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
    whole = parse_one(parts[0].source, parts[0].offset + start)
    return Template(text, (whole,), whole)


def names_in(condition: object) -> list[Chain] | None:
    """Return the dotted names that a `when:` or `until:` reads, sorted; None if it cannot be parsed."""
    try:
        return sorted(parse_expression(condition).references) if isinstance(condition, str) else []
    except ExpressionError:
        return None


def _parts(text: str) -> Iterator[str | Expression]:
    """Yield the literal texts and expressions of a text, in order; `$${{` becomes a literal `${{`."""
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
        yield parse_one(text[opening.end() : closing], opening.end())
        position = closing + 2
    literal += text[position:]
    if literal or not text:
        yield literal


def _apart(text: str) -> Iterator[ExpressionError | Template]:
    """Yield the expressions of a text that cannot be read, then all others as a template."""
    good: list[Expression] = []
    position = 0
    for opening in _OPENING.finditer(text):
        if opening.group() == "$${{" or opening.start() < position:
            continue
        try:
            position = _closing(text, opening.end(), opening.start())
            good.append(parse_one(text[opening.end() : position], opening.end()))
        except ExpressionError as error:
            yield error
            if error.offset == opening.start():
                break  # it does not end
    if good:
        yield Template(text, tuple(good), None)


def _closing(text: str, position: int, opening: int) -> int:
    """Return the index of the `}}` that ends an expression, outside quotes and mappings."""
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


@dataclass(frozen=True)
class Tree:
    """A JSON value whose texts can hold expressions, parsed, such as the `params` of a stage."""

    source: Json
    content: "Template | dict[str, Tree] | list[Tree] | None" = field(compare=False, repr=False)
    """The parts that depend on the scope; None for a constant, which `source` then holds."""

    @property
    def constant(self) -> bool:
        """Whether the value is the same in every scope."""
        return self.content is None

    @cached_property
    def references(self) -> frozenset[Chain]:
        """The dotted names that are read."""
        if isinstance(self.content, Template):
            return self.content.references
        inner = self.content.values() if isinstance(self.content, dict) else self.content or ()
        return frozenset().union(*(tree.references for tree in inner))

    def value(self, scope: Scope) -> Json:
        """Return the value as plain JSON; constant parts are shared, not copied. Raise ExpressionError."""
        content = self.content
        if content is None:
            return self.source
        if isinstance(content, Template):
            return plain(content.value(scope))
        if isinstance(content, dict):
            return {key: tree.value(scope) for key, tree in content.items()}
        return [tree.value(scope) for tree in content]


def parse_tree(value: Json) -> Tree:
    """Parse all texts of a JSON value. Raise ExpressionError for the first wrong one."""
    if isinstance(value, str):
        template = parse(value)
        return Tree(template.text_value({}), None) if template.constant else Tree(value, template)
    if isinstance(value, Mapping):
        branches = {key: parse_tree(item) for key, item in value.items()}
        constant = all(tree.constant for tree in branches.values())
        source = {key: tree.source for key, tree in branches.items()}
        return Tree(source, None if constant else branches)
    if isinstance(value, list | tuple):
        items = [parse_tree(item) for item in value]
        return Tree([tree.source for tree in items], None if all(tree.constant for tree in items) else items)
    return Tree(value, None)


Path = tuple[str | int, ...]


def reference_of(value: Json) -> Chain | None:
    """Return the name that an expression is, if a text is that expression and it is one name."""
    text = next((template for path, template in walk(value) if not path), None)
    whole = text.whole if isinstance(text, Template) else None
    return whole.chain if whole is not None and whole.tree is None else None


def walk(value: Json) -> Iterator[tuple[Path, Template | ExpressionError]]:
    """Yield every text of a JSON value that holds an expression: its path and its template."""
    for path, text in texts_in(value):
        try:
            template = parse(text)
        except ExpressionError:
            yield from ((path, part) for part in _apart(text))
        else:
            if not template.constant:
                yield path, template


def texts_in(value: Json, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every text of a JSON value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts_in(item, (*path, key))
