"""The YAML parser's complaints in plain words."""

from __future__ import annotations

import re

from yaml import MarkedYAMLError, YAMLError

from diel.load.nodes import Complaint

_QUOTES = "put a text with such a character in quotes"
_ALIKE = "indent keys of one mapping alike"
_COLON = "put a text with `: ` in quotes"
_LIST = "start the list on a line of its own, or write [a, b]"
_OPENED = "it opens at line {line}; close it, and separate its entries by commas"

# (part of the parser's words, what is wrong, what to do)
_AT_BEGIN = (
    ("found unexpected end of stream", "a quote opens here and is never closed", "close it"),
    ("found unexpected document", "a quote opens here and is never closed", "close it"),
    ("could not find expected ':'", "a key without a ':'", "write `key: value`"),
)
_PLAIN = (
    ("expected ',' or ']'", "a list [...] is not closed, or lacks a comma", _OPENED),
    ("expected ',' or '}'", "a mapping {...} is not closed, or lacks a comma", _OPENED),
    ("mapping values are not allowed", "a ':' where no key can be", f"{_ALIKE}; {_COLON}"),
    ("did not find expected key", "expected a key at this place", _ALIKE),
    ("expected <block end>", "expected a key at this place", _ALIKE),
    ("expected '-' indicator", "expected a `-` as for the other entries", "indent entries alike"),
    ("sequence entries are not allowed", "a list entry `-` where none can be", _LIST),
    ("unknown escape character", "an unknown escape in a double-quoted text", "use single quotes, or \\\\"),
    ("did not find expected whitespace", "a text that begins with `!` is a tag", "use single quotes"),
    ("undefined tag handle", "a tag is refused: a file holds data only", "omit the tag"),
    ("alphabetic or numeric character", "a name belongs after this `&` or `*`", _QUOTES),
    ("found incompatible YAML document", "a version of YAML that diel cannot read", "omit %YAML"),
    ("expected <document start>", "the document has ended above", "take out `...`"),
    ("expected node content", "a value belongs here", _QUOTES),
    ("expected the node content", "a value belongs here", _QUOTES),
    ("comment or line break", "nothing can follow `|` or `>` on its line", "start the text below it"),
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
        character = text[at : at + 1]
        if character == "\t":
            return Complaint(at, (), "a tab; YAML indents by spaces", "replace it by spaces")
        return Complaint(at, (), f"a text cannot start with {character!r}", "put it in quotes")
    for words, message, hint in (*_AT_BEGIN, *_PLAIN):
        if words in problem:
            line = text.count("\n", 0, began) + 1
            hint = _expression_hint(text, at, began) or hint.format(line=line)
            # the end of the file says nothing
            at_begin = any(words == one[0] for one in _AT_BEGIN) or at >= len(text.rstrip())
            return Complaint(began if at_begin else at, (), message, hint)
    return Complaint(at, (), f"not YAML: {problem}", _expression_hint(text, at, began))


def _index(mark: object, text: str) -> int:
    return min(int(getattr(mark, "index", 0)), len(text))


def _expression_hint(text: str, at: int, began: int) -> str:
    """A hint for unquoted expressions, the usual cause: their braces mean something to YAML."""
    line = text[text.rfind("\n", 0, at) + 1 : (text + "\n").index("\n", at)]
    whole = line if began > at else text[began:at] + line
    if re.search(r"(?<!['\"$\w])\$\{\{", whole):
        return 'put ${{ … }} in quotes: "${{ x }}"'
    return ""
