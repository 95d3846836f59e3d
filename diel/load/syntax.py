"""What the YAML parser complains about, in plain words."""

from __future__ import annotations

import re

from yaml import MarkedYAMLError, YAMLError

from diel.load.nodes import Complaint

_QUOTES = "put a text with such a character in quotes"
_OPENED = "it opens at line {line}; close it, and separate its entries by commas"

# (part of the parser's words, what is wrong, what to do, whether the place is where the thing began)
_PLAIN: tuple[tuple[str, str, str, bool], ...] = (
    ("found unexpected end of stream", "a quote opens here and is never closed", "close it", True),
    ("found unexpected document", "a quote opens here and is never closed", "close it", True),
    ("expected ',' or ']'", "a list [...] is not closed, or lacks a comma", _OPENED, False),
    ("expected ',' or '}'", "a mapping {...} is not closed, or lacks a comma", _OPENED, False),
    (
        "mapping values are not allowed",
        "a ':' where no key can stand",
        "indent keys of one mapping alike; put a text with `: ` in quotes",
        False,
    ),
    ("could not find expected ':'", "a key without a ':'", "write `key: value`", True),
    ("did not find expected key", "expected a key at this place", "indent keys of one mapping alike", False),
    ("expected <block end>", "expected a key at this place", "indent keys of one mapping alike", False),
    ("expected '-' indicator", "expected a `-` as for the other entries", "indent entries alike", False),
    (
        "sequence entries are not allowed",
        "a list entry `-` where none can stand",
        "start the list on a line of its own, or write [a, b]",
        False,
    ),
    (
        "unknown escape character",
        "an unknown escape in a double-quoted text",
        "use single quotes, or \\\\",
        False,
    ),
    ("undefined tag handle", "a tag is refused: a file holds data only", "leave the tag out", False),
    ("alphabetic or numeric character", "a name belongs after this `&` or `*`", _QUOTES, False),
    ("found incompatible YAML document", "a version of YAML that diel cannot read", "leave %YAML out", False),
    ("expected <document start>", "the document has ended above", "take out `...`", False),
    ("expected node content", "a value belongs here", _QUOTES, False),
    ("expected the node content", "a value belongs here", _QUOTES, False),
    ("comment or line break", "nothing may follow `|` or `>` on its line", "start the text below it", False),
)


def complaint(error: YAMLError, text: str) -> Complaint:
    """The parser's error as a complaint about the text."""
    if not isinstance(error, MarkedYAMLError):
        return Complaint(0, (), "not YAML: the text cannot be read", "`diel init` writes an example")
    mark = error.problem_mark or error.context_mark
    begun = error.context_mark or mark
    at, began = (_index(m, text) for m in (mark, begun))
    problem = str(error.problem)
    if "cannot start any token" in problem:
        return _stray(at, text)
    for words, message, hint, at_begin in _PLAIN:
        if words in problem:
            line = text.count("\n", 0, began) + 1
            hint = _expression_hint(text, at, began) or hint.format(line=line)
            at_begin = at_begin or at >= len(text.rstrip())  # the end of the file tells nothing
            return Complaint(began if at_begin else at, (), message, hint)
    return Complaint(at, (), f"not YAML: {problem}", _expression_hint(text, at, began))


def _index(mark: object, text: str) -> int:
    return min(int(getattr(mark, "index", 0)), len(text))


def _stray(at: int, text: str) -> Complaint:
    character = text[at : at + 1]
    if character == "\t":
        return Complaint(at, (), "a tab; YAML indents by spaces", "replace it by spaces")
    return Complaint(at, (), f"a text cannot start with {character!r}", "put it in quotes")


def _expression_hint(text: str, at: int, began: int) -> str:
    """Unquoted expressions are the usual cause: their braces mean something to YAML."""
    line = text[text.rfind("\n", 0, at) + 1 : (text + "\n").index("\n", at)]
    whole = line if began > at else text[began:at] + line
    if re.search(r"(?<!['\"$\w])\$\{\{", whole):
        return 'put ${{ … }} in quotes: "${{ x }}"'
    return ""
