"""Values in a shell command: their places, their quoting, and the words that may be files."""

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import NamedTuple


class Quotes(Enum):
    """The quotes around a value in a command."""

    BARE = ""
    SINGLE = "'"
    DOUBLE = '"'

    def quote(self, words: Sequence[str]) -> str:
        """Return words that the shell reads byte for byte here; within quotes, as one word."""
        if self is Quotes.BARE:
            return shlex.join(words)
        return f"{self.value}{shlex.quote(' '.join(words))}{self.value}"


class Unquotable(Exception):
    """No value can be put here. `index` counts the values before it."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.message = message


# What is open while a command is read. The first two can hold values, as can the text outside all.
_SINGLE, _DOUBLE, _PAREN = "'", '"', "("
_UNSAFE = {
    "`": "inside backticks; write $(...) instead",
    "#": "inside a shell comment",
    "((": "inside shell arithmetic; compute inside ${{ }} instead",
    "$[": "inside shell arithmetic; compute inside ${{ }} instead",
    "{": "inside a shell's ${...}; set a variable first: x=${{ ... }}",
}
_HEREDOC = "in a command with a here-document (<<); write the text to a file, or use printf"
_ANSI = "after $'...', which some shells do not know; use plain quotes"
_CASE = "after a `case` inside $(...); put it into a script instead"
_WORD = re.compile(r"\w+")


def places(literals: Sequence[str]) -> list[Quotes]:
    """Return the quotes around each value, by the texts between. Raise Unquotable where none is safe."""
    reader = _Follower()
    quotes: list[Quotes] = []
    for index, text in enumerate(literals[:-1]):
        reader.read(text)
        reason = reader.obstacle()
        if reason:
            raise Unquotable(index, f"a value cannot be {reason}")
        quotes.append({_SINGLE: Quotes.SINGLE, _DOUBLE: Quotes.DOUBLE}.get(reader.top, Quotes.BARE))
        reader.fresh = False
    return quotes


class _Follower:
    """Follows quotes and brackets through a command."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.lost = ""
        self.escaped = False
        self.fresh = True  # at the start of a word, where `#` opens a comment

    @property
    def top(self) -> str:
        return self.open[-1] if self.open else ""

    def obstacle(self) -> str:
        """Return the reason why no value can be here; empty if one can."""
        if self.escaped:
            return "right after a backslash"
        return self.lost or next((_UNSAFE[mark] for mark in self.open if mark in _UNSAFE), "")

    def read(self, text: str) -> None:
        index = 0
        while index < len(text):
            index += self.step(text, index)

    def step(self, text: str, index: int) -> int:
        """Read the construct at the index; return its length."""
        char, top = text[index], self.top
        if self.escaped:
            self.escaped = False
            self.fresh = self.fresh and char == "\n"  # a continued line goes on as it was
            return 1
        if top in (_SINGLE, "#"):
            if char == (_SINGLE if top == _SINGLE else "\n"):
                self.open.pop()
                self.fresh = top == "#"
            return 1
        if char == "\\":
            self.escaped = True
            return 1
        length = self._dollar(text, index) if char == "$" else 0
        if not length:
            length = self._quoted(char) if top in (_DOUBLE, "{", "$[") else self._bare(text, index)
        return length

    def _dollar(self, text: str, index: int) -> int:
        if text.startswith("$'", index) and self.top != _DOUBLE:
            self.lost = self.lost or _ANSI
        for mark, name in (("$((", "(("), ("$(", _PAREN), ("${", "{"), ("$[", "$[")):
            if text.startswith(mark, index):
                self.open.append(name)
                self.fresh = True
                return len(mark)
        return 0

    def _quoted(self, char: str) -> int:
        if char == {_DOUBLE: '"', "{": "}", "$[": "]"}[self.top]:
            self.open.pop()
            self.fresh = False
        elif char == "`" or (self.top != _DOUBLE and char in "'\""):
            self._toggle(char)
        return 1

    def _bare(self, text: str, index: int) -> int:
        char = text[index]
        word = _WORD.match(text, index) if self.fresh else None
        if char in "'\"`":
            self._toggle(char)
        elif char == "#" and self.fresh:
            self.open.append("#")
        elif text.startswith("<<<", index):  # bash's way to hand a word to a program's input
            self.fresh = True
            return 3
        elif text.startswith("<<", index) and "((" not in self.open:
            self.lost = self.lost or _HEREDOC
        elif text.startswith("))", index) and self.top == "((":
            self.open.pop()
            return 2
        elif text.startswith("((", index):
            self.open.append("((")
            return 2
        elif char == "(":
            self.open.append(_PAREN)
        elif char == ")" and self.top == _PAREN:
            self.open.pop()
        elif word and word.group() == "case" and self.open:
            self.lost = self.lost or _CASE
        self.fresh = char in " \t\n;&|()<>"
        return 1

    def _toggle(self, char: str) -> None:
        if self.top == char:
            self.open.pop()
        else:
            self.open.append(char)
        self.fresh = char == "`"


VALUE = "\0"
"""Stands for a value in the text of a word."""
PIPE = "/dev/stdin"
"""Stands for a <(...)."""
_BEGIN = frozenset({"{", "for", "select", "while", "until", "if", "case", "function"})
_END = frozenset({"}", "done", "fi", "esac"})
"""The words that begin and end a group of commands."""
RESERVED = _BEGIN | _END | {"then", "do", "else", "elif", "!", "time"}
"""The words of the shell before a command."""
_LAST = 100
"""How many of a group's last commands to look at: groups can be deeply nested."""


@dataclass
class Word:
    """One word, without its quotes; `start` and `end` count characters of the texts joined by VALUE."""

    text: str = ""
    start: int = 0
    end: int = 0
    values: list[int] = field(default_factory=list)
    """The values in it, counted from 0."""
    expands: bool = False
    """Whether the shell inserts something: a variable, or what another command prints."""


class Command(NamedTuple):
    """A simple command. `reads` is what its input can be: commands before a pipe, those of a <(...), and the
    word of a here-string, as the command `<<<`."""

    words: list[Word]
    reads: "list[Command]"


def commands(literals: Sequence[str]) -> list[Command]:
    """Return the simple commands of a text in pieces around values, those in brackets and $(...) included."""
    reader = Commands()
    for number, text in enumerate(literals):
        if number:
            reader.value(number - 1)
        reader.read(text)
    return reader.end()


class _Frame(NamedTuple):
    """The state after a bracket closes."""

    words: list[Word]
    word: Word | None
    reads: list[Command]
    begun: int
    """Commands found before it."""
    opened: str
    """The state before it."""


class Commands(_Follower):
    """Follows a command, and splits it into words on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Command] = []
        self.frames: list[_Frame] = []
        self.words: list[Word] = []
        self.word: Word | None = None
        self.reads: list[Command] = []
        self.ended: list[Command] = []
        """The commands that ended last: one, or all of a group."""
        self.groups: list[int] = []
        """Where the open ones begin in `found`."""
        self.here = False
        """Whether the next word is a here-string's."""
        self.index = 0
        self.last = ""

    def read(self, text: str) -> None:
        index = 0
        while index < len(text):
            top, escaped, depth = self.top, self.escaped, len(self.open)
            length = self.step(text, index)
            self._take(text[index : index + length], top, escaped, len(self.open) - depth)
            self.index += length
            index += length

    def value(self, number: int) -> None:
        word = self._current()
        word.text += VALUE
        word.values.append(number)
        self.fresh = False
        self.last = VALUE
        self.index += 1
        word.end = self.index

    def end(self) -> list[Command]:
        while self.frames:
            self.leave()
        self._end_command()
        return self.found

    def leave(self) -> None:
        self._end_command()
        frame = self.frames.pop()
        group = self.found[max(frame.begun, len(self.found) - _LAST) :]
        self.words, self.word, self.reads, self.ended = frame.words, frame.word, frame.reads, group
        if frame.opened == "<":
            self.reads = [*self.reads, *group]
            self.words.append(Word(PIPE, self.index, self.index + 1))

    def _take(self, piece: str, top: str, escaped: bool, opened: int) -> None:
        """Handle the part just read: of a word, its end, or a bracket."""
        if top == "#" or (opened > 0 and self.top == "#"):
            self._end_command()
        elif opened > 0 and self.top == "(":
            if piece == "(" and self.last not in ("<", ">"):
                self._end_command()
            elif piece != "(":
                self._add("", expands=True)
            self.frames.append(_Frame(self.words, self.word, self.reads, len(self.found), self.last))
            self.words, self.word, self.reads = [], None, []
        elif opened < 0 and top == "(":
            self.leave()
            if self.word is not None:
                self.word.end = self.index + 1
        elif opened and {piece, top if opened < 0 else self.top} <= {"'", '"'}:
            self._add("")  # a quote begins or ends
        elif escaped:
            self._add("" if piece == "\n" else piece)
        elif piece == "\\" and top != "'":
            self._add("")
        elif top in ("", "(") and not opened:
            self._bare_piece(piece)
        else:
            self._add(piece, expands=top != "'" and piece[0] in "$`{")
        self.last = piece

    def _bare_piece(self, piece: str) -> None:
        if piece in " \t" or piece[0] in "<>" or (piece == "&" and self.last[:1] in ("<", ">")):
            self._end_word()
            self.here = self.here or piece == "<<<"
        elif piece in ("\n", ";", "&", "|", ")"):
            self._end_command()
            if piece == "|":
                self.reads = [] if self.last == "|" else self.ended
        else:
            self._add(piece, expands=piece == "$")

    def _add(self, text: str, *, expands: bool = False) -> None:
        word = self._current()
        word.text += text
        word.expands = word.expands or expands
        word.end = self.index + max(1, len(text))

    def _current(self) -> Word:
        if self.word is None:
            self.word = Word(start=self.index)
        return self.word

    def _end_word(self) -> None:
        if self.word is None:
            return
        if self.here:
            self.reads = [*self.reads, Command([Word("<<<"), self.word], [])]
        else:
            self.words.append(self.word)
        self.word, self.here = None, False

    def _end_command(self) -> None:
        self._end_word()
        if not self.words:
            return
        self.found.append(Command(self.words, self.reads))
        begun = len(self.found) - 1
        for word in takewhile(RESERVED.__contains__, (word.text for word in self.words)):
            if word in _BEGIN:
                self.groups.append(len(self.found) - 1)
            elif word in _END and self.groups:
                begun = self.groups.pop()
        self.ended, self.words, self.reads = self.found[max(begun, len(self.found) - _LAST) :], [], []


_BETWEEN = re.compile(r"[\s;|&<>()'\"`=,]+")
_WRITTEN = re.compile(r"(?:>\|?|-o)\s*[\"']?([^\s;|&<>()'\"`]+)|\b(?:tee|touch) (?:-a )?([^\s;|&<>()'\"`]+)")


def names_in(text: str) -> list[str]:
    """Return the words of a command that may name files to read: what it writes, and variables, left out."""
    new = {"".join(parts) for parts in _WRITTEN.findall(text)}
    words = dict.fromkeys(_BETWEEN.split(text))
    return [
        word for word in words if word not in new and re.search(r"\w", word) and not set(word) & set("$\0*?")
    ]


def label_of(path: str, labels: Iterable[str] = ()) -> str:
    """Return a name for a file under `files`: its own without the suffix, as far as it can be one."""
    stem = re.sub(r"\W+", "_", os.path.basename(path).partition(".")[0], flags=re.ASCII).strip("_")
    label = stem if stem[:1].isalpha() else f"file_{stem}".rstrip("_")
    return f"{label}_" if label in labels else label


def misplaced(command: Iterable[str], folder: str, task: str, output: str) -> str:
    """Return the file that a command did not find in `task`, by its words, and that lies in `folder`."""
    for word in names_in(" ".join(command)):
        beside = os.path.isfile(os.path.join(folder, word)) and not os.path.exists(os.path.join(task, word))
        if beside and not os.path.isabs(word) and os.path.basename(word) in output:
            label = label_of(word)
            where = f"'{word}' lies beside the workflow, and a task works in a directory of its own"
            return f"{where}: write files: {{{label}: {word}}}, and ${{{{ files.{label} }}}} in the command"
    return ""
