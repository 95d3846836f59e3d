"""JSON values whose texts hold expressions, as the `params` of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from diel.expressions.evaluator import Scope
from diel.expressions.syntax import Chain, ExpressionError
from diel.expressions.template import Template, parse
from diel.expressions.text import plain

Json = Any


@dataclass(frozen=True)
class Tree:
    """A JSON value whose texts may hold expressions, parsed."""

    source: Json
    content: Template | dict[str, Tree] | list[Tree] | None = field(compare=False, repr=False)
    """What depends on the scope; None for a constant, which `source` then holds."""

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
        """The value as plain JSON; constant parts are shared, not copied. Raises ExpressionError."""
        content = self.content
        if content is None:
            return self.source
        if isinstance(content, Template):
            return plain(content.value(scope))
        if isinstance(content, dict):
            return {key: tree.value(scope) for key, tree in content.items()}
        return [tree.value(scope) for tree in content]


def parse_tree(value: Json) -> Tree:
    """Parses all texts of a JSON value. Raises ExpressionError for the first that is wrong."""
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


def walk(value: Json) -> Iterator[tuple[tuple[str | int, ...], Template | ExpressionError]]:
    """Every text of a JSON value that holds an expression: its path, and what it parses to."""
    if isinstance(value, str):
        try:
            template = parse(value)
        except ExpressionError as error:
            yield (), error
        else:
            if not template.constant:
                yield (), template
        return
    items: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, Mapping):
        items = iter(value.items())
    elif isinstance(value, list | tuple):
        items = iter(enumerate(value))
    for key, item in items:
        for path, found in walk(item):
            yield (key, *path), found
