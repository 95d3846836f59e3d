"""What the attempts of a task asked for, where expressions of its stage say it: as the journal has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.results import Recorded
from diel.results.demand import asked_in
from diel.results.demand import with_asked as with_asked
from diel.spec import Resources
from diel.values import format_duration, format_size

_DURATIONS = ("walltime", "timeout", "backoff")
_WORDS = {"limit": "retries"}


def asked_by(run: Recorded, stage: str, index: int) -> dict[int, dict[str, Any]]:
    """What each attempt of a task asked for, by its number."""
    return {number: asked for task, number, asked in asked_in(run, stage) if task == index}


def wanted_by(run: Recorded, stage: str, index: int | None) -> Resources:
    """What a task asked for at last, or what its stage says where the journal has nothing."""
    attempts = {} if index is None else asked_by(run, stage, index)
    return with_asked(run.workflow.stages[stage].bare.resources, attempts[max(attempts)] if attempts else {})


def words(asked: Mapping[str, Any]) -> str:
    """`ranks 4, memory 2.0 GiB, timeout 10m00s`."""
    shown = ((key, value) for key, value in asked.items() if value is not None)
    return ", ".join(f"{_WORDS.get(key, key)} {_shown(key, value)}" for key, value in shown)


def _shown(key: str, value: Any) -> str:
    if key == "memory":
        return format_size(value)
    return format_duration(value) if key in _DURATIONS else str(value)
