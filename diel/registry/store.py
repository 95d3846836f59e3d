"""What a project keeps of its hyperparameters: one small file a change, made once and never changed after.

There is no lock and nothing to wait for: a change is written to a file of its own, which gets its name (a
hard link, which fails where the name is taken) when it is whole. Readers see all of a change or nothing of
it, also on NFS, and a writer that is killed leaves a temporary file that nobody reads. The project's values
are the changes folded in the order of their names.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from diel.errors import UsageError
from diel.paths import registry_dir

_NAME = re.compile(r"(?P<stamp>[0-9]{20})-.+\.json")
_KEPT = ("origin", "time")
"""What each file must have."""
_END = 253_402_300_800.0 - 86_400.0
"""The year 10000, in any time zone: later times have no date."""


@dataclass(frozen=True)
class Change:
    """One change of a project's values: several names change together."""

    origin: Literal["set", "promotion", "publication"]
    values: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    """The names that the project has no value for from here on."""
    workflow: str = ""
    """The workflow by which the values were checked, or whose run made them."""
    run: str = ""
    axis: str = ""
    """The search of a promotion."""
    trial: int | None = None
    stage: str = ""
    """The stage of a publication."""
    task: int | None = None
    key: str = ""
    """The cache key of the task that made a publication."""
    began: float | None = None
    """When that run was made, which tells it from a later one of its name."""
    user: str = ""
    time: float = 0.0
    """Seconds since the epoch, by the clock of the host that made it."""


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
    made = Change(**{**_fields(change), "time": time.time(), "user": change.user or user_name()})
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
    return made


def _fields(change: Change) -> dict[str, Any]:
    return {name: getattr(change, name) for name in Change.__dataclass_fields__}


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
    try:
        names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise UsageError(f"cannot read the project's registry {folder}: {error.strerror}") from error
    changes, unreadable = [], []
    for name in names:
        change = _read(folder / name)
        if change is None:
            unreadable.append(folder / name)
        else:
            changes.append(change)
    return changes, unreadable


def _read(path: Path) -> Change | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        known = {name: document[name] for name in Change.__dataclass_fields__ if name in document}
        change = Change(**{**known, "unset": tuple(known.get("unset", ()))})
        return change if all(name in known for name in _KEPT) and _is_sound(change) else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _is_sound(change: Change) -> bool:
    """Whether each part is of its type. Raises ValueError where a value is no JSON: infinity."""
    json.dumps(change.values, allow_nan=False)
    where = (change.workflow, change.run, change.axis, change.stage)
    texts = (change.origin, *where, change.key, change.user, *change.unset)
    numbers = (change.trial or 0, change.task or 0, change.began or 0.0, change.time)
    return (
        isinstance(change.values, dict)
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) for number in numbers)
        and 0 <= change.time < _END
    )


def current(changes: Iterable[Change]) -> dict[str, Held]:
    """The values that hold after these changes, by name."""
    held: dict[str, Held] = {}
    for change in changes:
        for name in change.unset:
            held.pop(name, None)
        held.update({name: Held(value, change) for name, value in change.values.items()})
    return held


def told(change: Change) -> str:
    """Where a change is from, in words: `promotion of melt-3, trial 7`."""
    if change.origin == "promotion":
        return f"promotion of {change.run}, {change.axis} {change.trial}"
    if change.origin == "publication":
        return f"publication of {change.run}, {change.stage}/{change.task}"
    return f"diel params set, by {change.user}" if change.user else "diel params set"


def user_name() -> str:
    """The user's name; the number where a container knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
