"""Undeclared variables of the shell that a command's text reads by name.

It reads one except where it has surely set it before, in the same shell.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import dropwhile, pairwise, takewhile
from typing import Any

from diel.base.carried import is_place
from diel.workflow.expressions.shell import RESERVED, Commands
from diel.workflow.models.stage import Stage, reads_quotes
from diel.workflow.models.workflow import Workflow

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
_BY_NAME = re.compile(
    r"""(?:(?:\benviron(?:\.(?:get|pop|setdefault)\(|\[)|getenv\(|\bENV(?:IRON)?\[)\s*\\?["']|\bENV\{["']?|"""
    r"""(?:\benv|\$ENV)\.(?=[A-Z_]+\b))([A-Za-z_]\w*)(?!\w|\\?["']\]\s*=[^=])"""
)
_OWN = re.compile(
    r"BASH(?:_\w+|PID|OPTS)?|S?RANDOM|SECONDS|EPOCH(?:SECONDS|REALTIME)|LINENO|PWD|OLDPWD|IFS|_|REPLY|E?UID|PPID|"
    r"OPT(?:ARG|IND|ERR)|HOSTTYPE|MACHTYPE|OSTYPE|SHLVL|FUNCNAME|PIPESTATUS|GROUPS|DIRSTACK|LC_[A-Z]+|OMP_NUM_THREADS"
)
"""What a shell or diel sets."""


class FromShell(str):
    """A value of a stage's `env` that is the user's shell's: an environment may set another."""


def read_variables(workflow: Workflow, stage: Stage) -> dict[str, int]:
    """Return the variables that a stage's command reads by name, if neither diel sets them nor the stage or
    its environment declares them, with the place in the text of each; 0 for a command that is a list, and
    for the lines of an environment, which are read before it."""
    around = workflow.environments.get(stage.environment or "")
    lines = "" if around is None else "".join(f"{line}\n" for line in around.setup)
    declared = {*stage.env, *(() if around is None else around.variables)}
    places: dict[str, int] = {}
    for name, place in _read(stage, lines):
        if name not in declared and not (is_place(name) or _OWN.fullmatch(name)):
            places.setdefault(name, max(0, place) if isinstance(stage.command, str) else 0)
    return places


def _read(stage: Stage, lines: str) -> Iterator[tuple[str, int]]:
    text = stage.command if isinstance(stage.command, str) else ""
    words = [word for word in (not text and stage.command) or () if isinstance(word, str)]
    if not text or reads_quotes(stage.interpreter):
        yield from ((name, place - len(lines)) for name, place in variables_in(lines + text))
    yield from ((match[1], match.start(1)) for match in _BY_NAME.finditer(text or " ".join(words)))
    names = [*variables_of(words)]
    for script, target in ((file.filling.text, file.target) for file in stage.rendered.values()):
        is_shell = target.endswith("sh") or re.match(r"#!.*sh\b", script)
        names += [*_BY_NAME.findall(script), *(name for name, _ in variables_in(script if is_shell else ""))]
    yield from ((name, 0) for name in names)


def shell_of(workflow: Workflow, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all variables that its commands read by name and nothing declares."""
    names = {name for stage in workflow.stages.values() for name in read_variables(workflow, stage)}
    values = {name: environ[name] for name in sorted(names) if name in environ}
    return {name: value for name, value in values.items() if not re.search("[\ud800-\udfff]|\\${{", value)}


def apply_shell(workflow: Workflow, shell: Mapping[str, str]) -> None:
    """Declare for each stage the variables of these that its command reads; its environment beats them."""
    for name, stage in workflow.stages.items() if shell else ():
        if read := {key: FromShell(shell[key]) for key in read_variables(workflow, stage) if key in shell}:
            workflow.stages[name] = stage.model_copy(update={"env": {**read, **stage.env}})


def apply_sizes(workflow: Workflow, sizes: Mapping[str, Mapping[str, Any]]) -> None:
    """Give stages these resources: sizes in bytes, durations in seconds."""
    for name, size in sizes.items():
        if name in workflow.stages:
            stage = workflow.stages[name]
            resources = stage.resources.model_copy(update=dict(size))
            workflow.stages[name] = stage.model_copy(update={"resources": resources})


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
