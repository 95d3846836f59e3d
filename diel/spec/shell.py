"""The shell that runs a command that is a text."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from diel.spec.model import Items, Text, found, refuse

SHELLS: dict[str, tuple[str, ...]] = {
    "bash": ("bash", "-e", "-o", "pipefail", "-c"),
    "sh": ("/bin/sh", "-e", "-c"),
}
"""The words in front of a text, by the names that `shell` knows. With `-e` a failed line ends the task,
with `pipefail` so does a program before a pipe."""

_POSIX = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "yash", "zsh"})
"""Shells that read quotes as POSIX says, which is how values are put into a text."""


def _shell(value: Any) -> Any:
    expected = "expected bash, sh or a list of words"
    hint = "for instance [zsh, -e, -o, pipefail, -c]; the command's text becomes the last word"
    if isinstance(value, str) and value not in SHELLS:
        text = value.strip()
        near = f"write [{text}, -e, -c]" if text in _POSIX else f"write command: {found(text)}"
        raise refuse(f"{expected}, found {found(value)}", near)
    if isinstance(value, list | tuple):
        if not value or not all(isinstance(word, str) and word for word in value):
            raise refuse(
                f"{expected}, found {'an empty one' if not value else 'an entry that is none'}", hint
            )
        if any("${{" in word for word in value):
            raise refuse("a shell takes no expressions", "write its words as they are")
        if reads_quotes(tuple(value)) and not takes_a_text(tuple(value)):
            raise refuse(f"the last word is no -c: {value[-1]} would take the text for a file's name", hint)
    elif value is not None and not isinstance(value, str):
        raise refuse(f"{expected}, found {found(value)}", hint)
    return value


Shell = Annotated[Literal["bash", "sh"] | Items[Text] | None, BeforeValidator(_shell)]
"""What runs texts: a name, or the words that the text is put behind."""


def shell_words(shell: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The words in front of a text."""
    return SHELLS[shell or "bash"] if shell is None or isinstance(shell, str) else shell


def reads_quotes(words: tuple[str, ...]) -> bool:
    """Whether these words start a shell in which values can be quoted."""
    names = [os.path.basename(word) for word in words]
    if names[0] == "env":
        names = [
            n
            for n, word in zip(names[1:], words[1:], strict=True)
            if not word.startswith("-") and "=" not in word
        ]
    if names[:1] == ["busybox"]:
        names = names[1:]
    return bool(names) and names[0] in _POSIX


def takes_a_text(words: tuple[str, ...]) -> bool:
    """Whether the last word of a shell says that a text follows: -c, or -ec."""
    return words[-1].startswith("-") and not words[-1].startswith("--") and words[-1].endswith("c")
