"""Words of a command that a shell runs as a program: it would execute what a value there holds.

Quoting protects a value on its way to a word; it cannot help where that word is itself a program, as
after `sh -c`. Known are shells, and what hands its words to one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from diel.expressions.shell import PIPE, VALUE, Command, Word

SHELLS = frozenset(
    {*("sh", "bash", "rbash", "dash", "ash", "ksh", "ksh93", "mksh", "yash", "zsh"), *("fish", "csh", "tcsh")}
)
_BEFORE = frozenset(
    {"if", "then", "elif", "else", "while", "until", "do", "{", "!", "time", "builtin", "command"}
)
"""Words after which a command begins."""
_WRAPPERS = frozenset(
    {"env", "nice", "nohup", "timeout", "stdbuf", "setsid", "taskset", "numactl", "ionice", "chrt", "xargs"}
    | {"exec", "sudo", "doas", "find", "flock", "srun", "mpiexec", "mpirun", "aprun", "jsrun", "busybox"}
    | {"singularity", "apptainer", "docker", "podman"}
)
"""Programs that start another one, named somewhere among their words."""
_WITH_C = frozenset({"su", "runuser", "script", "flock"})
_WRAPPED = frozenset({"env", "su", "runuser", "ssh", "rsh", "remsh"})
"""For those that hand words to a shell: what another program would start."""
_REMOTE = frozenset({"ssh", "rsh", "remsh"})
_STARTING = (_WRAPPERS | _REMOTE) - {"xargs", "find"}
"""Those that pass their own input to the program that they start."""
_SSH_VALUED = "BbcDEeFIiJLlmOopQRSWw"
_PRINTING = frozenset({"echo", "printf", "<<<"})
_FILTERS = frozenset(
    {"cat", "tee", "head", "tail", "sort", "uniq", "tr", "sed", "grep", "cut", "tac", "envsubst"}
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_SUBSCRIPT = re.compile(rf"[A-Za-z_]\w*\[[^]]*{VALUE}")
_COMPARED = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})


def executed(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """The words of a simple command that hold a value and run as a program, and what runs them."""
    if any(os.path.basename(word.text) == "env" for word in words):
        places, split = zip(*_split(words), strict=True)
        yield from ((places[found], runner) for found, runner in _executed(split))
    else:
        yield from _executed(words)


def _executed(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    names = [os.path.basename(word.text) for word in words]
    for place, name in enumerate(names):
        if name in SHELLS:
            yield from _of_shell(words, place + 1, name)
    start = begin(words)
    for place in range(start, len(words) if names[start] in _WRAPPERS else start + 1):
        if place == start or (names[place] in _WRAPPED and names.index(names[place]) == place):
            for found in _handed(words, place, names[place]):
                if VALUE in words[found].text:
                    yield found, names[place]


def printed(command: Command) -> Iterator[tuple[Word, str]]:
    """The words with a value that a shell reads as a program from its input, and which shell."""
    shell = _reading_shell(command.words)
    for one in _through(command.reads) if shell else ():
        if _name(one) in _PRINTING and not any("%q" in word.text for word in one.words):
            yield from ((word, shell) for word in one.words if VALUE in word.text)


def _through(reads: Iterable[Command]) -> Iterable[Command]:
    """What a command reads, and what programs that pass on their input have read."""
    todo, seen = list(reads), dict[int, Command]()
    while todo:
        one = todo.pop()
        if id(one) not in seen and _name(one) in _FILTERS:
            todo.extend(one.reads)
        seen[id(one)] = one
    return seen.values()


def _name(command: Command) -> str:
    return os.path.basename(command.words[begin(command.words)].text)


def _reading_shell(words: Sequence[Word]) -> str:
    """The shell that runs a command's input, rather than a file or a text after -c; empty if none does."""
    start = begin(words)
    name = os.path.basename(words[start].text)
    if name in ("source", ".") and any(word.text == PIPE for word in words[start + 1 : start + 2]):
        return name
    if name in _REMOTE and not list(_behind_host(words, start + 1)):
        return name
    for place in range(start, len(words) if name in _STARTING else start + 1):
        shell = os.path.basename(words[place].text)
        if shell in SHELLS:
            letters, operand = _behind_options(words, place + 1)
            reads = "s" in letters or operand == len(words) or words[operand].text in ("-", PIPE)
            return shell if reads and "c" not in letters else ""
    return ""


def evaluated(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """The same for a shell's own commands: `eval`, and arithmetic, where a value can be `x[$(...)]`."""
    start = begin(words)
    for place in _built_in(words, start):
        if VALUE in words[place].text:
            yield place, words[start].text
    for place, word in enumerate(words):
        if _SUBSCRIPT.match(word.text):
            yield place, "[...]"


def begin(words: Sequence[Word]) -> int:
    """The place of the program: after assignments, and words such as `then`."""
    place = 0
    while place < len(words) - 1 and (words[place].text in _BEFORE or _ASSIGNMENT.match(words[place].text)):
        place += 1
    return place


def _of_shell(words: Sequence[Word], place: int, name: str) -> Iterator[tuple[int, str]]:
    """The text after a shell's -c: also after -lc, and after `-c -o pipefail`."""
    letters, operand = _behind_options(words, place)
    if "c" in letters or (name == "fish" and "C" in letters):
        options = (one for one in range(place, operand) if words[one].text[:1] in ("-", "+"))
        for one in (*options, operand):
            if one < len(words) and VALUE in words[one].text:
                yield one, name


def _behind_options(words: Sequence[Word], place: int) -> tuple[str, int]:
    """The letters of a shell's options, and the place where its first operand would be."""
    letters = ""
    while place < len(words) and re.match("[-+].", words[place].text):
        text = words[place].text
        long = text.startswith("--")
        letters += "c" * text.startswith(("--command", "--init-command")) if long else text[1:]
        takes = text in ("--rcfile", "--init-file") if long else text[-1] in "oO"
        place += 2 if takes else 1
    return letters, min(place, len(words))


def _handed(words: Sequence[Word], place: int, name: str) -> Iterator[int]:
    """The words that a program hands to a shell or runs as a program."""
    rest = range(place + 1, len(words))
    if name in _WITH_C:
        yield from (one for one in rest if words[one - 1].text in ("-c", "--command", "--session-command"))
        yield from (one for one in rest if words[one].text.startswith("--command="))
    elif name == "env":
        yield from (one for one in rest if words[one - 1].text in ("-S", "--split-string", "-vS"))
        yield from (one for one in rest if words[one].text.startswith(("-S", "--split-string=")))
    elif name in _REMOTE:
        yield from _behind_host(words, place + 1)
    elif name in ("watch", "parallel"):
        end = next((one for one in rest if words[one].text.startswith(":::")), len(words))
        yield from range(place + 1, end)


def _split(words: Sequence[Word]) -> Iterator[tuple[int, Word]]:
    """The words, each with its place; a text without a value after env -S is split, as env does."""
    for place, word in enumerate(words):
        option, text = words[place - 1].text if place else "", word.text
        attached = next((text.removeprefix(o) for o in ("-S", "--split-string=") if text.startswith(o)), "")
        split = text if option in ("-S", "--split-string", "-vS") else attached
        for part in split.split() if split and VALUE not in text else ():
            yield place, Word(part)
        if not split.strip() or VALUE in text:
            yield place, word


def _built_in(words: Sequence[Word], place: int) -> Iterator[int]:
    """The words that a shell's built-in command reads as a program, or computes with."""
    name, rest = words[place].text, range(place + 1, len(words))
    if name in ("eval", "let"):
        yield from rest
    elif name == "trap":
        yield from [one for one in rest if not words[one].text.startswith("-")][:1]
    elif name in ("declare", "typeset", "local", "export", "readonly"):
        if any(re.match("-[A-Za-z]*i", words[one].text) for one in rest):
            yield from rest
    elif name == "[[":
        if any(words[one].text in _COMPARED for one in rest):
            yield from rest
    elif name in ("[", "test"):
        yield from (one for one in rest if words[one - 1].text == "-v")


def _behind_host(words: Sequence[Word], place: int) -> Iterator[int]:
    """The words that ssh joins and hands to the other host's shell."""
    while place < len(words) and words[place].text.startswith("-"):
        text = words[place].text
        place += 2 if len(text) == 2 and text[1] in _SSH_VALUED else 1
    yield from range(place + 1, len(words))
