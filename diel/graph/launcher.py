"""Whether a stage's command starts its ranks itself."""

from __future__ import annotations

from collections.abc import Iterator

from diel.expressions import texts_in
from diel.graph.uses import expression_references, texts
from diel.spec import Stage

LAUNCHER, VARIABLE = "launcher", "DIEL_LAUNCHER"
"""What stands for the words of a launcher: the first in expressions, the second in a shell's text."""


PLACES = ("command", "env", "text")
"""Where that can be in a stage; the last is what its templates hold."""


def launches(stage: Stage) -> bool:
    """Whether the command runs once and starts its ranks itself, as many times as it likes.

    It does where `${{ launcher }}` or DIEL_LAUNCHER stands in `command`, `env` or one of its templates.
    """
    if stage.command is None or not stage.resources.mpi:
        return False
    named = any(VARIABLE in text for text in told(stage))
    return named or any(chain == (LAUNCHER,) for _, chain in expression_references((), stage))


def told(stage: Stage) -> Iterator[str]:
    """The texts of a command, of its variables and its templates."""
    for key, value in texts(stage):
        if key[0] in PLACES or key[2:] == PLACES[2:]:
            yield from (text for _, text in texts_in(value))
