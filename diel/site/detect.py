"""Which site is meant where none was named: the scheduler that answers here."""

from __future__ import annotations

from diel.errors import UsageError
from diel.scheduler.dialect import find_dialects


def detect() -> str:
    """The generic site of the one scheduler that answers here; `local` where none does.

    Raises UsageError where several answer.
    """
    found = find_dialects()
    # Slurm's own qsub is Slurm still.
    own = [dialect for dialect in found if not dialect.wrapper] or found
    names = list(dict.fromkeys(dialect.name for dialect in own))
    if len(names) > 1:
        told = " and ".join([", ".join(names[:-1]), names[-1]])
        raise UsageError(f"{told} answer here; choose one with --site {names[0]} (or DIEL_SITE)")
    return names[0] if names else "local"
