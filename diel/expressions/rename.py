"""Other names in the expressions of a text: those of a workflow that includes the one that it is from.

Names are found in the syntax tree, and only they are written anew; all else stays as it is, so that a place
in the new text has its place in the old one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from diel.expressions.expression import PLACES, Chain, Expression, ExpressionError, axes_in, chains_in
from diel.expressions.template import parse, parse_expression


class Edit(NamedTuple):
    """Characters of a text that were replaced: where they began, how many they were and are."""

    start: int
    old: int
    new: int


def renamed(text: str, names: Mapping[Chain, str], *, bare: bool = False) -> tuple[str, list[Edit]]:
    """A text with other names in its expressions, and what was replaced; unchanged if it does not parse.

    `names` has what to write for the first parts of dotted names. With `bare` the text is an expression
    itself, with or without `${{ }}`.
    """
    try:
        template = parse_expression(text) if bare else parse(text)
    except ExpressionError:
        return text, []  # which the checker reports
    found = sorted((place for one in template.expressions for place in _places(one, names)), reverse=True)
    for start, old, name in found:
        text = text[:start] + name + text[start + old :]
    return text, [Edit(start, old, len(name)) for start, old, name in reversed(found)]


def place_before(place: int, edits: Iterable[Sequence[int]]) -> int:
    """Where a character of a renamed text was before; the beginning of its name if that was replaced."""
    shift = 0
    for start, old, new in edits:
        if place < start + shift:
            break
        if place < start + shift + new:
            return start
        shift += new - old
    return place - shift


def _places(one: Expression, names: Mapping[Chain, str]) -> Iterator[tuple[int, int, str]]:
    """The names to replace: where they begin, how long they are, and what to write."""
    if one.tree is None:
        name, count = _new_name(one.chain, names)
        if count:
            yield one.offset, len(".".join(one.chain[:count])), name
        return
    axes = set(axes_in(one.tree))
    for node, chain in chains_in(one.tree):
        name, count = _new_name(chain, names)
        if node in axes:
            name, count = names.get((PLACES, ".".join(chain)), ""), len(chain)
        if name:
            for _ in range(len(chain) - count):
                assert isinstance(node, ast.Attribute | ast.Subscript)
                node = node.value
            assert isinstance(node, ast.expr)
            assert node.end_col_offset is not None
            whole = one.source.encode()  # Python counts bytes
            start = len(whole[: node.col_offset].decode())
            yield one.offset + start, len(whole[node.col_offset : node.end_col_offset].decode()), name


def _new_name(chain: Chain, names: Mapping[Chain, str]) -> tuple[str, int]:
    for count in range(len(chain), 0, -1):
        if chain[:count] in names:
            return names[chain[:count]], count
    return "", 0
