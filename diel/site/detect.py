"""Which site is meant where none was named: the scheduler that answers here."""

from __future__ import annotations

from diel.errors import UsageError
from diel.scheduler.scheduler import find_dialects


def detect() -> str:
    """The generic site of the one scheduler that answers here; `local` where none does.

    Raises UsageError where several answer.
    """
    found = find_dialects()
    # Commands in another's style are not another scheduler.
    names = [name for name, dialect in found.items() if not dialect.wrapper] or list(found)
    if len(names) > 1:
        told = " and ".join([", ".join(names[:-1]), names[-1]])
        raise UsageError(f"{told} answer here; choose one with --site {names[0]} (or DIEL_SITE)")
    return names[0] if names else "local"
