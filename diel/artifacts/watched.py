"""Files of a user that tasks read where they lie: what they were when the run first read them.

Nobody copies them or takes away permissions: who reads one looks whether it is still the same.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import NamedTuple

from diel.artifacts.artifact import content, identity_of
from diel.artifacts.identity import TICK, differences, text_of
from diel.errors import ModuleError

TRIES = 5
State = tuple[str, int]
"""A file's identity, and how many links it has."""


class Changed(ModuleError):
    """A file is not what it was when the run first read it."""


class FirstLook(NamedTuple):
    """A file or directory, as the run first read it."""

    name: str
    """What the workflow calls it: `files.script`."""
    path: str
    digest: str
    identity: str
    changed: int = 0
    """When it last changed before that, in nanoseconds: of a directory, a file in it."""


def look_at(name: str, path: str) -> FirstLook:
    """Read a file or directory for the first time. Raises OSError, and Changed where it is being written."""
    for _ in range(TRIES):
        if abs(time.time_ns() - identity_of(path)[1]) < TICK:
            time.sleep(TICK / 1e9)
        (identity, changed), digest = identity_of(path), content(path)[1]
        if identity_of(path)[0] == identity:
            return FirstLook(name, path, digest, identity, changed)
    raise Changed(f"{name}: {path} is being written: wait until it is whole")


def refuse_newer(whole: FirstLook, path: str) -> None:
    """Refuse a file that changed since it was read by another name, or in its directory. Raises Changed."""
    with suppress(OSError):  # who reads it says that it is gone
        if whole.changed and identity_of(path)[1] > whole.changed:
            raise Changed(f"{path} was changed since the run read {whole.name}, {whole.path}")


def hold(watched: FirstLook) -> State:
    """Return the state of a file that is still the same. Raises Changed."""
    name, path, digest, identity, _ = watched
    try:
        now = identity_of(path)[0]
        if now != identity and (changes := differences(path, digest, identity)):
            why = f"is not what it was when the run first read it: {text_of(changes)}"
            raise Changed(f"{name}: {path} {why}")
        return now, os.stat(path).st_nlink
    except OSError as error:
        raise Changed(f"{name}: {path} cannot be read any more: {error.strerror}") from error


def hold_still(watched: FirstLook, before: State) -> None:
    """Refuse a file that was written while a task could read it, even if its content is the same again.

    Another hard link changes its times too, and nothing else. Raises Changed.
    """
    after = hold(watched)
    if after[0] != before[0] and after[1] == before[1]:
        raise Changed(f"{watched.name}: {watched.path} was written while the task ran")
