"""One change of a project's values, and the file that says it."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

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

    @property
    def source(self) -> str:
        """Where it is from, in words: `promotion of melt-3, trial 7`."""
        if self.origin == "promotion":
            return f"promotion of {self.run}, {self.axis} {self.trial}"
        if self.origin == "publication":
            return f"publication of {self.run}, {self.stage}/{self.task}"
        return f"diel params set, by {self.user}" if self.user else "diel params set"


def read_change(path: Path) -> Change | None:
    """What a file says; None where it cannot be read."""
    try:
        return change_of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return None


def change_of(document: Any) -> Change | None:
    """A change from its JSON; None where it is none."""
    try:
        known = {name: document[name] for name in Change.__dataclass_fields__ if name in document}
        change = Change(**{**known, "unset": tuple(known.get("unset", ()))})
        return change if all(name in known for name in _KEPT) and _is_sound(change) else None
    except (ValueError, TypeError):
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


def user_name() -> str:
    """The user's name; the number where a container knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
