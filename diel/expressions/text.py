"""Values written as text, and as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

SCALARS = (str, int, float, type(None))


def written(value: Any) -> str:
    """A value as text: true/false, nothing for null, shortest decimals, JSON for the rest.

    Raises TypeError for what is neither JSON nor a path.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, PurePath):
        return str(value)
    return json.dumps(plain(value), ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value of a scope as plain JSON: paths become texts, other mappings and lists dict and list."""
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if is_list(value):
        return [plain(item) for item in value]
    return value


def is_list(value: Any) -> bool:
    """Whether a value is a sequence of items: a list, or one that a scope reads as it is asked."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
