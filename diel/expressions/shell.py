"""Where in a shell command a value may be put, and how it is quoted there.

A value is only safe where the shell reads it as one word or a part of one. This file follows the
quotes of a command around each place of a value, so that `"T=${{ t }}"` works as well as
`T=${{ t }}`, and finds the places where no quoting is safe: comments, here-documents, backticks,
arithmetic. It follows what POSIX sh defines, and is stricter than a shell where in doubt.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from enum import Enum


class Place(Enum):
    """What surrounds a value in a command."""

    BARE = ""
    SINGLE = "'"
    DOUBLE = '"'

    def quote(self, word: str) -> str:
        """The word, so written that the shell reads it byte for byte at this place.

        Inside quotes they are closed before the word and opened again after it.
        """
        return f"{self.value}{shlex.quote(word)}{self.value}"


class Unquotable(Exception):
    """No value can be put at a place. `index` counts the values before it."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.message = message


# What is open while a command is read. The first two may hold values, as may the text outside all.
_SINGLE, _DOUBLE, _PAREN = "'", '"', "("
_UNSAFE = {
    "`": "inside backticks; write $(...) instead",
    "#": "inside a shell comment",
    "((": "inside shell arithmetic; compute inside ${{ }} instead",
    "$[": "inside shell arithmetic; compute inside ${{ }} instead",
    "{": "inside a shell's ${...}; set a variable first: x=${{ ... }}",
}
_HEREDOC = "in a command with a here-document (<<); write the text to a file, or use printf"
_ANSI = "after $'...', which not every shell knows; use plain quotes"
_CASE = "after a `case` inside $(...); put it into a script instead"
_WORD = re.compile(r"\w+")


def places(literals: Iterable[str]) -> list[Place]:
    """The place of each value in a command, given the texts before, between and after the values.

    Raises Unquotable where a value stands where no quoting is safe.
    """
    reader = Reader()
    found: list[Place] = []
    texts = list(literals)
    for index, text in enumerate(texts):
        reader.read(text)
        if index < len(texts) - 1:
            reason = reader.obstacle()
            if reason:
                raise Unquotable(index, f"a value cannot stand {reason}")
            found.append(reader.place())
            reader.fresh = False
    return found


class Reader:
    """Follows quotes and brackets through a command."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.lost = ""
        self.escaped = False
        self.fresh = True  # at the start of a word, where `#` opens a comment

    @property
    def top(self) -> str:
        return self.open[-1] if self.open else ""

    def place(self) -> Place:
        return {_SINGLE: Place.SINGLE, _DOUBLE: Place.DOUBLE}.get(self.top, Place.BARE)

    def obstacle(self) -> str:
        """Why no value can stand here; empty where one can."""
        if self.escaped:
            return "right after a backslash"
        return self.lost or next((_UNSAFE[mark] for mark in self.open if mark in _UNSAFE), "")

    def read(self, text: str) -> None:
        index = 0
        while index < len(text):
            index += self.step(text, index)

    def step(self, text: str, index: int) -> int:
        """Reads what starts at the index; returns its length."""
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
