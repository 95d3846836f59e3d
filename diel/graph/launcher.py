"""Whether a stage's command starts its ranks itself."""

from __future__ import annotations

from collections.abc import Iterator

from diel.graph.uses import expression_references
from diel.spec import Stage

LAUNCHER, VARIABLE = "launcher", "DIEL_LAUNCHER"
"""What stands for the words of a launcher: the first in expressions, the second in a shell's text."""


def launches(stage: Stage) -> bool:
    """Whether the command runs once and starts its ranks itself, as many times as it likes.

    It does where `${{ launcher }}` or DIEL_LAUNCHER stands in `command` or `env`.
    """
    if stage.command is None or not stage.resources.mpi:
        return False
    named = any(VARIABLE in text for text in told(stage))
    return named or any(chain == (LAUNCHER,) for _, chain in expression_references((), stage))


def told(stage: Stage) -> Iterator[str]:
    """The texts of a command and its variables."""
    words = (stage.command,) if isinstance(stage.command, str) else stage.command or ()
    yield from (text for text in (*words, *stage.env.values()) if isinstance(text, str))
