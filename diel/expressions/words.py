"""The words of a shell command: which commands it holds, and where values stand in their words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from diel.expressions.shell import Reader

VALUE = "\0"
"""Stands for a value in the text of a word."""


@dataclass
class Word:
    """One word, without its quotes; `start` and `end` count characters of the texts joined by VALUE."""

    text: str = ""
    start: int = 0
    end: int = 0
    values: list[int] = field(default_factory=list)
    """The values in it, counted from 0."""
    expands: bool = False
    """Whether the shell itself puts something in: a variable, or what another command prints."""


def commands(literals: Iterable[str]) -> list[list[Word]]:
    """The simple commands of a text, those inside brackets and $(...) included, each as its words.

    `literals` are the texts before, between and after the values. Reserved words count as words.
    """
    reader = _Commands()
    for number, text in enumerate(literals):
        if number:
            reader.value(number - 1)
        reader.read(text)
    return reader.end()


class _Commands(Reader):
    """Follows a command, and splits it into words on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[Word]] = []
        self.frames: list[tuple[list[Word], Word | None]] = []
        self.words: list[Word] = []
        self.word: Word | None = None
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
        """A value stands here."""
        word = self._current()
        word.text += VALUE
        word.values.append(number)
        self.fresh = False
        self.last = VALUE
        self.index += 1
        word.end = self.index

    def end(self) -> list[list[Word]]:
        """The text has ended; so has what is still open."""
        while self.frames:
            self.leave()
        self._end_command()
        return self.found

    def leave(self) -> None:
        """Ends what a bracket has opened."""
        self._end_command()
        self.words, self.word = self.frames.pop()

    def _take(self, piece: str, top: str, escaped: bool, opened: int) -> None:
        """What was read just now: a part of a word, the end of one, or a bracket."""
        if top == "#" or (opened > 0 and self.top == "#"):
            self._end_command()
        elif opened > 0 and self.top == "(":
            if piece == "(":
                self._end_command()
            else:
                self._add("", expands=True)
            self.frames.append((self.words, self.word))
            self.words, self.word = [], None
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
        elif piece in ("\n", ";", "&", "|", ")"):
            self._end_command()
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
        if self.word is not None:
            self.words.append(self.word)
            self.word = None

    def _end_command(self) -> None:
        self._end_word()
        if self.words:
            self.found.append(self.words)
            self.words = []
