"""Words of a command that a shell runs as a program: what a value holds would be executed there.

Quoting protects a value on its way to a word; it cannot help where that word is itself a program, as
after `sh -c`. Known are shells, and what hands its words to one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from diel.expressions.words import VALUE, Word

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
"""Programs that start another one, which stands somewhere among their words."""
_WITH_C = frozenset({"su", "runuser", "script", "flock"})
_WRAPPED = frozenset({"env", "su", "runuser", "ssh", "rsh", "remsh"})
"""Of those that hand words to a shell: what another program would start."""
_REMOTE = frozenset({"ssh", "rsh", "remsh"})
_SSH_VALUED = "BbcDEeFIiJLlmOopQRSWw"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_SUBSCRIPT = re.compile(rf"[A-Za-z_]\w*\[[^]]*{VALUE}")
_COMPARED = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})


def executed(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """The words of a simple command that hold a value and are run as a program, and by what."""
    names = [os.path.basename(word.text) for word in words]
    for place, name in enumerate(names):
        if name in SHELLS:
            yield from _of_shell(words, place + 1, name)
    start = begin(words)
    for place in range(start, len(words) if names[start] in _WRAPPERS else start + 1):
        if place == start or names[place] in _WRAPPED:
            for found in _handed(words, place, names[place]):
                if VALUE in words[found].text:
                    yield found, names[place]


def evaluated(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """The same of what a shell does itself: `eval`, and arithmetic, in which a value may be `x[$(...)]`."""
    start = begin(words)
    for place in _built_in(words, start):
        if VALUE in words[place].text:
            yield place, words[start].text
    for place, word in enumerate(words):
        if _SUBSCRIPT.match(word.text):
            yield place, "[...]"


def begin(words: Sequence[Word]) -> int:
    """Where the program stands: behind assignments, and words such as `then`."""
    place = 0
    while place < len(words) - 1 and (words[place].text in _BEFORE or _ASSIGNMENT.match(words[place].text)):
        place += 1
    return place


def _of_shell(words: Sequence[Word], place: int, name: str) -> Iterator[tuple[int, str]]:
    """The text after a shell's -c: also after -lc, and after `-c -o pipefail`."""
    reads = False
    while place < len(words):
        text = words[place].text
        if text[:1] not in ("-", "+") or len(text) == 1:
            break
        if text.startswith("--"):
            reads = reads or text in ("--command", "--init-command")
            if VALUE in text and text.startswith(("--command=", "--init-command=")):
                yield place, name
            place += 2 if text in ("--rcfile", "--init-file") else 1
            continue
        reads = reads or "c" in text or (name == "fish" and "C" in text)
        if reads and VALUE in text:
            yield place, name
        place += 2 if text[-1] in "oO" else 1
    if reads and place < len(words) and VALUE in words[place].text:
        yield place, name


def _handed(words: Sequence[Word], place: int, name: str) -> Iterator[int]:
    """The words that a program hands to a shell, or that are a program to it."""
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


def _built_in(words: Sequence[Word], place: int) -> Iterator[int]:
    """The words that a command of the shell itself reads as a program, or computes with."""
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
