"""What a project keeps of its hyperparameters: one small file a change, made once and never changed after.

There is no lock and nothing to wait for: a change is written to a file of its own, which gets its name (a
hard link, which fails where the name is taken) when it is whole. Readers see all of a change or nothing of
it, also on NFS, and a writer that is killed leaves a temporary file that nobody reads. The project's values
are the changes folded in the order of their names. Now and then a writer keeps the fold so far in one file: a
shortcut, for thousands of small files are slow to read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from diel.errors import UsageError
from diel.files import put
from diel.paths import registry_dir
from diel.registry.change import Change, change_of, read_change, user_name

_NAME = re.compile(r"(?P<stamp>[0-9]{20})-.+\.json")
_FOLD = "folded.json"
FOLDED = 500
"""Changes after which the fold of all is written down anew."""


@dataclass(frozen=True)
class Held:
    """A value that the project has now, and the change that made it."""

    value: Any
    change: Change


def append_change(runs: Path, change: Change) -> Change:
    """Adds a change to the project of these runs, and returns it with its time and user.

    Its name is later than all names that are there, so that a host whose clock is behind does not lose
    against what it has seen. Raises UsageError where it cannot be written.
    """
    made = replace(change, time=time.time(), user=change.user or user_name())
    folder = registry_dir(runs)
    host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname()) or "host"
    mark = f"{host}-{os.getpid()}"
    temporary = folder / f".{time.time_ns():020d}-{mark}-{threading.get_ident()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _write(temporary, json.dumps(asdict(made)))
            while not _give_name(temporary, folder / f"{_next_stamp(folder):020d}-{mark}.json"):
                pass
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise UsageError(f"cannot write to the project's registry {folder}: {error.strerror}") from error
    _keep_fold(runs)
    return made


def _write(path: Path, text: str) -> None:
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with open(number, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(number)


def _next_stamp(folder: Path) -> int:
    """The time in nanoseconds; one more than the latest name's where that is ahead of this host's clock."""
    latest = max(
        (int(match["stamp"]) for match in map(_NAME.fullmatch, os.listdir(folder)) if match), default=0
    )
    return max(time.time_ns(), latest + 1)


def _give_name(temporary: Path, path: Path) -> bool:
    """Gives a whole file its name; False where another has taken it in this moment."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links: the name is of this process alone
        if path.exists():
            return False
        os.rename(temporary, path)
    return True


def read_changes(runs: Path) -> tuple[list[Change], list[Path]]:
    """All changes of the project of these runs, in order, and the files that cannot be read.

    A file that cannot be read is left alone: one of them must not stop all runs. Raises UsageError where
    the directory itself cannot be read.
    """
    folder = registry_dir(runs)
    return _read_all(folder, _names(folder))


def read_current(runs: Path) -> tuple[dict[str, Held], list[Path]]:
    """The values that the project of these runs has now, by name, and the files that cannot be read.

    Raises UsageError where the directory itself cannot be read.
    """
    folder = registry_dir(runs)
    names = _names(folder)
    fold = _load_fold(folder, names)
    changes, unreadable = _read_all(folder, names[fold.count :])
    return current(changes, fold.held), [*(folder / name for name in fold.unreadable), *unreadable]


def _names(folder: Path) -> list[str]:
    """The files of the changes, in order."""
    try:
        return sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read the project's registry {folder}: {error.strerror}") from error


def _read_all(folder: Path, names: Sequence[str]) -> tuple[list[Change], list[Path]]:
    changes, unreadable = [], []
    for name in names:
        change = read_change(folder / name)
        if change is None:
            unreadable.append(folder / name)
        else:
            changes.append(change)
    return changes, unreadable


def current(changes: Iterable[Change], before: Mapping[str, Held] | None = None) -> dict[str, Held]:
    """The values that hold after these changes, by name; `before` has those that held then."""
    held = dict(before or {})
    for change in changes:
        for name in change.unset:
            held.pop(name, None)
        held.update({name: Held(value, change) for name, value in change.values.items()})
    return held


# --- the shortcut ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fold:
    """The first `count` changes, folded."""

    count: int
    held: Mapping[str, Held]
    unreadable: Sequence[str]


def _load_fold(folder: Path, names: Sequence[str]) -> _Fold:
    """The fold that was kept; of no change where there is none, or files came or went behind its back."""
    nothing = _Fold(0, {}, ())
    try:
        document = json.loads((folder / _FOLD).read_text(encoding="utf-8"))
        count, unreadable = document["count"], document["unreadable"]
        if document["names"] != _digest(names[:count]):
            return nothing
        held = {}
        for name, packed in document["held"].items():
            change = change_of(packed)
            if change is None:
                return nothing
            held[name] = Held(change.values[name], change)
        return _Fold(count, held, unreadable)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return nothing


def _keep_fold(runs: Path) -> None:
    """Writes the fold down where many changes came since; what goes wrong costs its readers time alone."""
    folder = registry_dir(runs)
    names = _names(folder)
    if len(names) - _load_fold(folder, names).count < FOLDED:
        return
    held, unreadable = read_current(runs)
    document = {
        "count": len(names),
        "names": _digest(names),
        "held": {name: asdict(one.change) for name, one in held.items()},
        "unreadable": [path.name for path in unreadable],
    }
    with contextlib.suppress(OSError):
        put(folder / _FOLD, json.dumps(document))


def _digest(names: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(names).encode(), digest_size=16).hexdigest()
