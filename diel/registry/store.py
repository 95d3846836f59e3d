"""A project's hyperparameters: one small file for each change, never changed afterwards.

There is no lock and nothing to wait for. A change is a file whose name no other writer gives, put in place
whole; so readers see all of a change or nothing of it. The values of the project are its changes, folded in
the order of their names. Now and then a writer keeps the fold so far in one file: a shortcut, since thousands
of small files are slow to read.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diel.errors import UsageError
from diel.files import put, replacing
from diel.paths import registry_dir

_NAME = re.compile(r"(?P<stamp>[0-9]{20})-.+\.json")
_FOLD = "folded.json"
FOLDED = 500
"""Changes after which the fold of all is written again."""
_END = 253_402_300_800.0 - 86_400.0
"""The year 10000, in any time zone: later times have no date."""


class Change(NamedTuple):
    """One change of a project's values: several names change together."""

    origin: Literal["set", "promotion", "publication"]
    values: Mapping[str, Any] = {}
    unset: tuple[str, ...] = ()
    """The names that the project has no value for from then on."""
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
    """When that run was made, which distinguishes it from a later one of its name."""
    user: str = ""
    time: float = 0.0
    """Seconds since the epoch, by the clock of the host that made it."""

    @property
    def source(self) -> str:
        """Its source in words: `promotion of melt-3, trial 7`."""
        if self.origin == "promotion":
            return f"promotion of {self.run}, {self.axis} {self.trial}"
        if self.origin == "publication":
            return f"publication of {self.run}, {self.stage}/{self.task}"
        return f"diel params set, by {self.user}" if self.user else "diel params set"


class Held(NamedTuple):
    """A value that the project has now, and the change that made it."""

    value: Any
    change: Change


def append_change(runs: Path, change: Change) -> Change:
    """Add a change to the project; return it with time and user. Its name is later than all that are there,
    whatever the host's clock says. Raise UsageError."""
    made = change._replace(time=time.time(), user=change.user or user_name())
    folder = registry_dir(runs)
    host = re.sub(r"[^A-Za-z0-9.-]", "_", os.uname().nodename) or "host"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stamps = (int(match["stamp"]) for match in map(_NAME.fullmatch, os.listdir(folder)) if match)
        stamp = max(time.time_ns(), 1 + max(stamps, default=0))
        name = f"{stamp:020d}-{host}-{os.getpid()}-{os.urandom(4).hex()}.json"
        with replacing(folder / name) as file:
            file.write(json.dumps(made._asdict()).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"cannot write to the project's registry {folder}: {error.strerror}") from error
    _keep_fold(folder)
    return made


def user_name() -> str:
    """Return the user's name; the number if a container knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def read_changes(runs: Path) -> tuple[list[Change], list[Path]]:
    """Return all changes of the project in order, and the unreadable files. Raise UsageError."""
    folder = registry_dir(runs)
    return _read_all(folder, _names(folder))


def read_current(runs: Path) -> tuple[dict[str, Held], list[Path]]:
    """Return the project's values, and the files that cannot be read. Raise UsageError."""
    return _read_current(folder := registry_dir(runs), _names(folder))


def _read_current(folder: Path, names: Sequence[str]) -> tuple[dict[str, Held], list[Path]]:
    fold = _load_fold(folder, names)
    changes, unreadable = _read_all(folder, names[fold.size :])
    return current(changes, fold.held), [*(folder / name for name in fold.unreadable), *unreadable]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read the project's registry {folder}: {error.strerror}") from error


def _read_all(folder: Path, names: Sequence[str]) -> tuple[list[Change], list[Path]]:
    found = {folder / name: read_change(folder / name) for name in names}
    changes = [change for change in found.values() if change is not None]
    return changes, [path for path, change in found.items() if change is None]


def read_change(path: Path) -> Change | None:
    """The change that a file holds; None if it cannot be read."""
    try:
        return _change_of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _change_of(document: Any) -> Change:
    """A change from its JSON. Raise ValueError or TypeError for a wrong part."""
    known = {name: document[name] for name in Change._fields if name in document}
    change = Change(**{**known, "unset": tuple(known.get("unset", ()))})
    json.dumps(change.values, allow_nan=False)
    where = (change.workflow, change.run, change.axis, change.stage)
    texts = (change.origin, *where, change.key, change.user, *change.unset)
    numbers = (change.trial or 0, change.task or 0, change.began or 0.0, change.time)
    if not (
        isinstance(change.values, dict)
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) for number in numbers)
        and "time" in known
        and 0 <= change.time < _END
    ):
        raise ValueError("no change of a project's values")
    return change


def current(changes: Iterable[Change], before: Mapping[str, Held] | None = None) -> dict[str, Held]:
    """The values that hold after these changes, by name; `before` has those that held then."""
    held = dict(before or {})
    for change in changes:
        for name in change.unset:
            held.pop(name, None)
        held.update({name: Held(value, change) for name, value in change.values.items()})
    return held


class _Fold(NamedTuple):
    size: int
    held: Mapping[str, Held]
    unreadable: Sequence[str]


def _load_fold(folder: Path, names: Sequence[str]) -> _Fold:
    """The kept fold; an empty one if there is none, or files were added or removed since."""
    nothing = _Fold(0, {}, ())
    try:
        document = json.loads((folder / _FOLD).read_text(encoding="utf-8"))
        count, unreadable = document["count"], document["unreadable"]
        if document["names"] != _digest(names[:count]):
            return nothing
        changes = {name: _change_of(packed) for name, packed in document["held"].items()}
        held = {name: Held(change.values[name], change) for name, change in changes.items()}
        return _Fold(count, held, unreadable)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return nothing


def _keep_fold(folder: Path) -> None:
    """Write the fold if many changes came since. Errors only cost its readers time."""
    names = _names(folder)
    if len(names) - _load_fold(folder, names).size < FOLDED:
        return
    held, unreadable = _read_current(folder, names)
    document = {
        "count": len(names),
        "names": _digest(names),
        "held": {name: one.change._asdict() for name, one in held.items()},
        "unreadable": [path.name for path in unreadable],
    }
    with contextlib.suppress(OSError):
        put(folder / _FOLD, json.dumps(document))


def _digest(names: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(names).encode(), digest_size=16).hexdigest()
