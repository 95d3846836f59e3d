"""A YAML text as a tree in which every part knows its place, and problems at these places.

PyYAML reads events; what they mean is decided here, by YAML 1.2's rules: no tags, no merge keys, no keys but
text, none of them twice, one document, and aliases within bounds.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import yaml

from diel.base.errors import Problem
from diel.base.values import resolve
from diel.workflow.expressions import JOINT

LONG_LISTS = "keep long lists in a CSV or JSONL file, and read it with `file:`"
MAX_DEPTH = 64
MAX_COPIES = 10_000
"""The most scalars, lists and mappings that a file's aliases may add."""
MAX_NODES = 1_500_000
"""The most scalars, lists and mappings in a file: what can be read in a few seconds."""
_MOST = 1000
"""The most complaints to keep: more than anyone reads."""

_PADDED = re.compile(r"[-+]?0[0-9]+(\.[0-9]*)?")
TWICE = "the key is there twice"

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Key = tuple[str | int, ...]
Verbatim = Mapping[str, Any] | bool
"""Keys below which a plain scalar stays text as written: nested keys, `*` for any."""


class TextProblem(NamedTuple):
    """A problem of a text: its character, its key, the message and the hint."""

    at: int
    key: Key
    message: str
    hint: str = ""
    first: int | None = None
    """For a key that is there twice: where it comes first."""


class Unreadable(Exception):
    """The rest of the text cannot be read. `complaint` says why."""

    def __init__(self, complaint: TextProblem) -> None:
        self.complaint = complaint
        super().__init__(complaint.message)


@dataclass(slots=True, eq=False)
class Scalar:
    """A word or a text; `start` and `end` count characters."""

    start: int
    end: int
    text: str
    plain: bool


@dataclass(slots=True, eq=False)
class Sequence:
    """A list."""

    start: int
    end: int
    flow: bool
    items: "list[Node]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Dictionary:
    """A mapping; its keys are text."""

    start: int
    end: int
    flow: bool
    entries: "dict[str, tuple[Scalar, Node]]" = field(default_factory=dict)


Node = Scalar | Sequence | Dictionary


def compose(text: str) -> tuple[Node | None, list[TextProblem]]:
    """Return a text's tree (None if empty) and its mistakes. Raise Unreadable and yaml.YAMLError."""
    composer = _Composer()
    events: Iterator[Any] = yaml.parse(text, Loader=_Loader)
    for event in events:
        composer.take(event)
    return composer.root, composer.complaints


@dataclass(slots=True, eq=False)
class _Open:
    """A collection that is still being read."""

    node: Sequence | Dictionary
    anchor: str | None
    size: int = 1
    key: Scalar | None = None
    """The key that is waiting for its value."""
    skip: bool = False
    """Whether that value is ignored because its key was refused."""


class _Composer:
    """Builds the tree event by event, without recursion, so that no depth can break it."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.complaints: list[TextProblem] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._copies = 0
        self._nodes = 0

    def take(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._stop(event, f"more than {MAX_NODES} values in one file", LONG_LISTS)
        match event:
            case yaml.ScalarEvent():
                self._take_scalar(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._open(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._close(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent() if self.root is not None:
                self._stop(event, "a second document starts here", "one file holds one: remove this `---`")

    def _take_scalar(self, event: Any) -> None:
        self._refuse_tag(event)
        node = Scalar(event.start_mark.index, event.end_mark.index, event.value, not event.style)
        if event.anchor:
            self._anchors[event.anchor] = (node, 1)
        self._place(node, 1)

    def _open(self, event: Any) -> None:
        self._refuse_tag(event)
        if len(self._stack) >= MAX_DEPTH:
            self._stop(event, f"nested more than {MAX_DEPTH} levels deep", "is a bracket repeated here?")
        start, flow = event.start_mark.index, bool(event.flow_style)
        kind = Sequence if isinstance(event, yaml.SequenceStartEvent) else Dictionary
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        self._stack.append(_Open(kind(start, start, flow), event.anchor))

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        done.node.end = event.end_mark.index
        if done.anchor:
            self._anchors[done.anchor] = (done.node, done.size)
        self._place(done.node, done.size)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            if any(frame.anchor == event.anchor for frame in self._stack):
                self._stop(event, f"`*{event.anchor}` is inside what it repeats", "it would never end")
            hint = f"no `&{event.anchor}` comes before it; put a text that starts with * in quotes"
            self._complain(event.start_mark.index, f"`*{event.anchor}` repeats nothing", hint)
            self._place(Scalar(event.start_mark.index, event.end_mark.index, "", False), 1)
            return
        node, size = self._anchors[event.anchor]
        self._copies += size
        if self._copies > MAX_COPIES:
            message = f"aliases repeat more than {MAX_COPIES} values"
            self._stop(event, message, "write the values out, or keep them in a file axis")
        self._place(node, size)

    def _place(self, node: Node, size: int) -> None:
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        top.size += size
        if isinstance(top.node, Sequence):
            top.node.items.append(node)
        elif top.key is None:
            top.key, top.skip = self._as_key(top.node, node)
        else:
            if not top.skip:
                top.node.entries[top.key.text] = (top.key, node)
            top.key, top.skip = None, False

    def _as_key(self, mapping: Dictionary, node: Node) -> tuple[Scalar, bool]:
        """Return a node as the key of a mapping, and whether it was refused."""
        if not isinstance(node, Scalar):
            message = "a list or a mapping where a key belongs"
            self._complain(node.start, message, "an expression is written ${{ … }}")
            return Scalar(node.start, node.end, "?", False), True
        if node.plain and node.text == "<<":
            hint = "repeat the keys, or give a whole part an anchor (&name) and repeat it (*name)"
            self._complain(node.start, "merge keys (`<<`) are no part of YAML 1.2", hint)
            return node, True
        if node.plain and not _is_text(node.text):
            shown = node.text[:40] or "nothing"
            self._complain(node.start, f"a key is a text, found {shown}", f"put it in quotes: '{shown}'")
            return node, True
        if node.text in mapping.entries:
            first, key = mapping.entries[node.text][0].start, (*self._path(), node.text)
            self._keep(TextProblem(node.start, key, TWICE, "drop one, or rename it", first))
            return node, True
        return node, False

    def _path(self) -> Key:
        path: list[str | int] = []
        for frame in self._stack:
            if isinstance(frame.node, Sequence):
                path.append(len(frame.node.items))
            elif frame.key is not None:
                path.append(frame.key.text)
        return tuple(path)

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            hint = "omit the tag; put a text that starts with ! in quotes"
            shown = str(event.tag).replace("tag:yaml.org,2002:", "!!")[:60]
            message = f"the tag `{shown}` is refused: a file holds data only"
            self._complain(event.start_mark.index, message, hint)

    def _complain(self, index: int, message: str, hint: str) -> None:
        self._keep(TextProblem(index, self._path(), message, hint))

    def _keep(self, complaint: TextProblem) -> None:
        if len(self.complaints) < _MOST:
            self.complaints.append(complaint)

    def _stop(self, event: Any, message: str, hint: str) -> None:
        raise Unreadable(TextProblem(event.start_mark.index, self._path(), message, hint))


def _is_text(text: str) -> bool:
    try:
        return isinstance(resolve(text), str)
    except ValueError:
        return False


def content(node: Node, verbatim: Verbatim, complaints: list[TextProblem], key: Key = ()) -> Any:
    """Return a tree's plain value; a number beyond all words of a computer is a complaint, and infinite."""
    if isinstance(node, Dictionary):
        return {
            name: content(child, _below(verbatim, name), complaints, (*key, name))
            for name, (_, child) in node.entries.items()
        }
    if isinstance(node, Sequence):
        return [
            _scalar(child, verbatim, complaints, key)
            if isinstance(child, Scalar)
            else content(child, verbatim is True, complaints, (*key, place))
            for place, child in enumerate(node.items)
        ]
    return _scalar(node, verbatim, complaints, key)


def zero_padded(node: Node, verbatim: Verbatim) -> Iterator[Scalar]:
    """Yield numbers with leading zeros, which are lost, and those in a list that only zeros at the end tell
    from another."""
    if isinstance(node, Dictionary):
        for name, (_, child) in node.entries.items():
            yield from zero_padded(child, _below(verbatim, name))
    elif isinstance(node, Sequence):
        leaves = [child for child in node.items if isinstance(child, Scalar) and child.plain]
        counts = Counter(text.rstrip("0") for text in {leaf.text for leaf in leaves if "." in leaf.text})
        for child in node.items:
            yield from zero_padded(child, verbatim is True)
        padded = (leaf for leaf in leaves if leaf.text.endswith("0") and counts[leaf.text.rstrip("0")] > 1)
        yield from padded if verbatim is not True else ()
    elif node.plain and verbatim is not True and _PADDED.fullmatch(node.text):
        yield node


def _below(verbatim: Verbatim, name: str) -> Verbatim:
    if isinstance(verbatim, bool):
        return verbatim
    below: Verbatim = verbatim.get(name, verbatim.get("*", False))
    return below


def _scalar(node: Scalar, verbatim: Verbatim, complaints: list[TextProblem], key: Key) -> Any:
    if not node.plain or verbatim is True:
        return node.text
    try:
        return resolve(node.text)
    except ValueError as error:
        hint = "put it in quotes to pass it as text"
        complaints.append(TextProblem(node.start, key, str(error), hint))
        return math.inf


class KeyLocator(Protocol):
    """Tells where keys are really written."""

    def __call__(self, key: Key, offset: int | None) -> "tuple[Source, Key, int | None] | None": ...
    def renamed(self, key: Key, text: str) -> tuple[str, list[list[Any]]]: ...


def descend(root: Node, key: Key) -> tuple[list[tuple[Scalar | None, Node]], Key]:
    """Return the parts along a key's path, each with its key, and the rest that does not exist."""
    trail: list[tuple[Scalar | None, Node]] = [(None, root)]
    for place, part in enumerate(key):
        node = trail[-1][1]
        if isinstance(node, Dictionary) and part in node.entries:
            trail.append(node.entries[str(part)])
        elif isinstance(node, Sequence) and isinstance(part, int) and 0 <= part < len(node.items):
            trail.append((None, node.items[part]))
        else:
            return trail, key[place:]
    return trail, ()


@dataclass(frozen=True)
class Source:
    """A YAML text with the place of each of its parts."""

    path: Path
    text: str
    root: Node | None = field(default=None, repr=False, compare=False)
    elsewhere: KeyLocator | None = field(default=None, repr=False, compare=False)
    """Where a key is really written, if another file or key was put in place here."""

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", self.text))]

    def place(self, index: int) -> tuple[int, int]:
        """Return line and column, both from 1, of a character."""
        line = bisect_right(self._lines, index)
        return line, index - self._lines[line - 1] + 1

    def at(self, index: int, key: Key, message: str, hint: str = "") -> Problem:
        """Return a problem at a character."""
        line, column = self.place(index)
        texts = (_short(text.replace(JOINT, ".")) for text in (message, hint))
        return Problem(str(self.path), line, column, _dotted(key), *texts)

    def problem(
        self, key: Key, message: str, hint: str = "", *, offset: int | None = None, at_key: bool = False
    ) -> Problem:
        """Tell a problem at a key's value, or above; `offset` counts characters, `at_key` means the key."""
        moved = None if self.elsewhere is None else self.elsewhere(key, offset)
        if moved is not None:
            source, written, offset = moved
            if source.path != self.path:
                message, hint = (_without(str(key[1]), text) for text in (message, hint))
            return source.problem(written, message, hint, offset=offset, at_key=at_key)
        if self.root is None:
            return self.at(0, key, message, hint)
        trail, rest = descend(self.root, key)
        label, node = trail[-1]
        if rest and isinstance(node, Scalar):
            key, rest = key[: len(key) - len(rest)], ()  # a field behind a short form
        index = node.start
        if label is not None and (at_key or rest or self._hangs_below(label, node)):
            index = label.start
        elif offset is not None and isinstance(node, Scalar):
            index = _inside(node, self.text, offset)
        return self.at(index, key, message, hint)

    def _hangs_below(self, label: Scalar, node: Node) -> bool:
        """Return whether a value is a block below its key, or empty: a problem then stands at the key."""
        if isinstance(node, Scalar):
            return node.plain and not node.text
        return not node.flow or self.place(node.start)[0] != self.place(label.start)[0]

    def complained(self, complaints: Iterable[TextProblem]) -> list[Problem]:
        """Return complaints about the text as problems."""
        problems = []
        for complaint in complaints:
            line, column = self.place(complaint.first or 0)
            before = "" if complaint.first is None else f"the first is at line {line}, column {column}; "
            problems.append(self.at(complaint.at, complaint.key, complaint.message, before + complaint.hint))
        return problems


def _without(label: str, text: str) -> str:
    """Return a message about a key of another file, in the names of that file."""
    before = label.rpartition(".")[0]
    return re.sub(rf"(?<![\w./]){re.escape(before)}[.{JOINT}](?=\w)", "", text) if before else text


def _dotted(key: Key) -> str:
    parts = [_short(str(part), 70) for part in key]
    return ".".join(parts if len(parts) <= 12 else [*parts[:4], "…"])


def _short(text: str, most: int = 600) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _inside(node: Scalar, text: str, offset: int) -> int:
    """Find a scalar's `offset`th character in the file: walks both along, for quotes, indents and folds."""
    start = node.start
    if text[start : start + 1] in "|>" and not node.plain:
        start = text.find("\n", start, node.end) + 1
    index = start
    for char in node.text[: offset + 1]:
        index = start
        while index < node.end and text[index] != char and not (char.isspace() and text[index].isspace()):
            index += 1
        if index >= node.end:
            return node.start
        start = index + 1
    return index


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


def complaint(error: yaml.YAMLError, text: str) -> TextProblem:
    """Return the parser's error as a complaint about the text."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return TextProblem(0, (), "not YAML: the text cannot be read", "`diel init` writes an example")
    mark = error.problem_mark or error.context_mark
    begun = error.context_mark or mark
    at, began = (min(int(getattr(entry, "index", 0)), len(text)) for entry in (mark, begun))
    problem = str(error.problem)
    if "cannot start any token" in problem:
        character = text[at : at + 1]
        if character == "\t":
            return TextProblem(at, (), "a tab; YAML indents by spaces", "replace it by spaces")
        return TextProblem(at, (), f"a text cannot start with {character!r}", "put it in quotes")
    for words, message, hint in (*_AT_BEGIN, *_PLAIN):
        if words in problem:
            line = text.count("\n", 0, began) + 1
            hint = _expression_hint(text, at, began) or hint.format(line=line)
            # the end of the file says nothing
            at_begin = any(words == entry[0] for entry in _AT_BEGIN) or at >= len(text.rstrip())
            return TextProblem(began if at_begin else at, (), message, hint)
    return TextProblem(at, (), f"not YAML: {problem}", _expression_hint(text, at, began))


def _expression_hint(text: str, at: int, began: int) -> str:
    """Return a hint for unquoted expressions, the usual cause: their braces mean something to YAML."""
    line = text[text.rfind("\n", 0, at) + 1 : (text + "\n").index("\n", at)]
    whole = line if began > at else text[began:at] + line
    return 'put ${{ … }} in quotes: "${{ x }}"' if re.search(r"(?<!['\"$\w])\$\{\{", whole) else ""
