"""The words of a command that may name files, and what to write where one lies beside the workflow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_BETWEEN = re.compile(r"[\s;|&<>()'\"`=,]+")
_WRITTEN = re.compile(r"(?:>\|?|-o)\s*[\"']?([^\s;|&<>()'\"`]+)|\b(?:tee|touch) (?:-a )?([^\s;|&<>()'\"`]+)")


def names_in(text: str) -> list[str]:
    """Return the words of a command that may name files to read: what it writes, and variables, left out."""
    made = {"".join(found) for found in _WRITTEN.findall(text)}
    words = dict.fromkeys(_BETWEEN.split(text))
    return [
        word for word in words if word not in made and re.search(r"\w", word) and not set(word) & set("$\0*?")
    ]


def label_of(path: str, taken: Iterable[str] = ()) -> str:
    """Return a name for a file under `files`: its own without the suffix, as far as it can be one."""
    stem = re.sub(r"\W+", "_", os.path.basename(path).partition(".")[0], flags=re.ASCII).strip("_")
    label = stem if stem[:1].isalpha() else f"file_{stem}".rstrip("_")
    return f"{label}_" if label in taken else label


def misplaced(command: Iterable[str], folder: str, task: str, said: str) -> str:
    """Return the file that a command did not find in `task`, by its words, and that lies in `folder`."""
    for word in names_in(" ".join(command)):
        beside = os.path.isfile(os.path.join(folder, word)) and not os.path.exists(os.path.join(task, word))
        if beside and not os.path.isabs(word) and os.path.basename(word) in said:
            label = label_of(word)
            where = f"'{word}' lies beside the workflow, and a task works in a directory of its own"
            return f"{where}: write files: {{{label}: {word}}}, and ${{{{ files.{label} }}}} in the command"
    return ""
