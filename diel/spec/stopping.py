"""When a stage is given up before all its tasks were tried: `max_failures` and `hold`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from diel.spec.model import Flaw, found, refuse

if TYPE_CHECKING:
    from diel.spec.forms.axis import Axis

_SHARE = r"([0-9]{1,3}(?:\.[0-9]+)?)\s*%"


def _most(value: Any) -> Any:
    expected = "expected a number of tasks (5) or a share of them (10%)"
    share = re.fullmatch(_SHARE, value.strip()) if isinstance(value, str) else None
    if share is not None and float(share[1]) <= 100:
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    hint = "0 stops the stage at its first failure"
    if isinstance(value, str) and value.strip().isdecimal():
        hint = f"write max_failures: {value.strip()}"
    elif isinstance(value, float) and 0 < value < 1:
        hint = f"write max_failures: {100 * value:g}%"
    raise refuse(f"{expected}, found {found(value)}", hint)


MostFailures = Annotated[
    int | str | None,
    BeforeValidator(lambda value: None if value is None else _most(value)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\s*[0-9]{1,3}(\.[0-9]+)?\s*%\s*$", "examples": ["10%"]},
                {"type": "null"},
            ]
        }
    ),
]
"""How many tasks of a stage may fail: a number, or a share written `10%`."""


def most_failures(most: int | str | None, tasks: int) -> float | None:
    """How many of so many tasks may fail; None for any number."""
    return tasks * float(most.rstrip("% ")) / 100 if isinstance(most, str) else most


def share_flaws(name: str, over: Sequence[str], axes: Mapping[str, Axis]) -> Iterator[Flaw]:
    """A stage of a search or loop, which decides what a failure means."""
    label = next((label for label in over if label in axes and axes[label].adaptive), None)
    if label is not None:
        word = axes[label].word
        hint = "write `failures` in the search: how many trials may fail" if word == "search" else "drop it"
        message = f"`max_failures` of a stage over the {word} '{label}', which itself decides about failures"
        yield Flaw(message, hint, ("stages", name, "max_failures"))
