"""The variables that a shell's text reads, except where it has surely set them before, in the same shell."""

import re
from collections.abc import Iterable, Iterator
from itertools import dropwhile, pairwise, takewhile

from diel.expressions.shell import RESERVED, Commands

_NAME = r"[A-Za-z_]\w*"
_READ = re.compile(rf"\$(?:\{{[#!]?({_NAME})(?:(?::|\[)\s*({_NAME}))?|({_NAME}))")
_TERM = re.compile(rf"(?<![\w$#])({_NAME})(?!\w|\s*=[^=])")
_SET = re.compile(rf"({_NAME})(?:\[[^]]*\])?(?:=|(\+=))")
_HERE = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"])*"|(?<!\S)#[^\n]*|(?<!<)<<-?\s*(?!<)(["'\\]?)(\w+)""", re.DOTALL
)
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|a|k|mk|z)?sh")
_LOOPS = {"for", "select"}
_COMPARED = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}


def variables_in(text: str) -> tuple[tuple[str, int], ...]:
    """Return the variables, with their places."""
    reader = _Reader()
    reader.text = _blanked(text)
    reader.read(reader.text)
    reader.end()
    return reader.variables


def variables_of(words: list[str]) -> Iterator[str]:
    """Yield the variables that a program with these words reads, by a text for a shell or by name."""
    for number, word in enumerate(words):
        before, after = words[:number], words[number + 1 : number + 2]
        if before and re.fullmatch(r"-\w*c", before[-1]) and any(map(_SHELL.fullmatch, before)):
            yield from (name for name, _ in variables_in(word))
        elif before[:1] == ["let"] or ({"[[", "]]"} & {*words} and {*before[-1:], *after} & _COMPARED):
            yield from _TERM.findall(word)
        elif "printenv" in before or before[:1] == ["export"]:
            yield from re.findall(rf"^{_NAME}$", word)


def _set_by(words: list[str]) -> set[str]:
    """Return the variables that a command sets in its shell."""
    if all(map(_SET.match, words)) or words[0] in ("export", "declare", "typeset", "readonly"):
        return {match[1] for word in words if (match := _SET.match(word))}
    names = [word for before, word in pairwise(words) if not re.fullmatch(r"-\w*[dinNptu]", before)]
    return {*names[: {"for": 1, "select": 1, "read": None, "unset": None}.get(words[0], 0)]}


def _blanked(text: str) -> str:
    """Blank the expressions, and all of the here-documents but what they read."""
    at, text = 0, re.sub(r"\$\{\{.*?\}\}", lambda match: "0" * len(match[0]), text, flags=re.DOTALL)
    while match := _HERE.search(text, at):
        at, begin = match.end(), text.find("\n", match.end()) + 1
        if match[2] and begin and (end := re.search(rf"(?m)^\t*{match[2]}$", text[begin:])):
            body = text[begin : begin + end.end()]
            names = [] if match[1] else re.findall(rf"(?<!\\)(\$)\{{?({_NAME})", body)
            read = "".join(map("".join, names)).ljust(len(body))
            text = f"{text[:begin]}{read}{text[begin + len(body) :]}"
    return text


class _Reader(Commands):
    """Follows a text. Only what a command sets that stands alone, in no group, surely holds after it."""

    text = sign = ""
    """The whole text, and the && || or | before this command."""
    is_empty = True
    """Whether nothing stands behind that yet."""
    own = new = frozenset[str]()
    """What is set, and what the last command sets."""
    variables: tuple[tuple[str, int], ...] = ()

    def _note(self, names: Iterable[str | None], place: int) -> None:
        self.variables += tuple((name, place) for name in names if name and name not in self.own)

    def _take(self, piece: str, top: str, escaped: bool, opened: int) -> None:
        pattern = _READ if piece[0] == "$" else _TERM if "((" in self.open else None
        if top not in ("'", "#") and not escaped and pattern:
            match = pattern.match(self.text, self.index)
            self._note(match.groups() if match else (), self.index)
        super()._take(piece, top, escaped, opened)
        if top == "#" and piece == "\n":
            self._join(piece)

    def _bare_piece(self, piece: str) -> None:
        super()._bare_piece(piece)
        if piece in ("\n", ";", "&", "|") and self.last[:1] not in ("&", "|", "<", ">"):
            doubled = piece in "&|" and self.text.startswith(piece * 2, self.index)
            self._join(piece * 2 if doubled else piece)

    def _join(self, sign: str) -> None:
        if self.frames or (self.is_empty and sign == "\n"):
            return  # after && the next line goes on
        self.own |= frozenset() if self.sign or sign in ("|", "&") else self.new
        self.sign, self.new, self.is_empty = sign if sign in ("&&", "||", "|") else "", frozenset(), True

    def _end_command(self) -> None:
        count = len(self.found)
        super()._end_command()
        for command in self.found[count:]:
            words, place, self.is_empty = [word.text for word in command.words], command.words[0].start, False
            words = [*dropwhile((RESERVED - _LOOPS).__contains__, words)]
            if len(self.groups) == len(_LOOPS & {*words[:1]}) and not self.frames:
                self.new = frozenset(_set_by(words))
            sets = [match for word in takewhile(_SET.match, words) if (match := _SET.match(word))]
            self._note((match[1] for match in sets if match[2]), place)
            self._note({*variables_of(words[len(sets) :])} - {match[1] for match in sets}, place)
