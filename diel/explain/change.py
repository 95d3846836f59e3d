"""One part of a task's key that is another than in an earlier run, and how mappings differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diel.table import shown


@dataclass(frozen=True)
class Change:
    """One part of a key that is another than in an earlier run."""

    part: str
    """module, command, params, files, env, values or inputs."""
    name: str
    """What within the part, as `hp.hidden`; empty where it cannot be told."""
    text: str
    """The change in words."""
    old: Any = None
    new: Any = None
    because: tuple[str, ...] = ()
    """For an input: why it is another, further and further upstream."""


def mapping_changes(
    part: str, prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Change]:
    """The entries of a mapping that are new, gone or others, each called by a prefix and its name."""
    for name in dict.fromkeys([*new, *old]):
        if name not in old:
            yield Change(part, prefix + name, f"{prefix}{name} is new: {shown(new[name])}", None, new[name])
        elif name not in new:
            yield Change(part, prefix + name, f"{prefix}{name} is gone: {shown(old[name])}", old[name], None)
        elif not _same(old[name], new[name]):
            text = f"{prefix}{name}: {shown(old[name])} → {shown(new[name])}"
            yield Change(part, prefix + name, text, old[name], new[name])


def _same(old: Any, new: Any) -> bool:
    """Whether two values are the same in a key, where 1 and 1.0 and true are three."""
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def plain(value: Any) -> Any:
    """A value with mappings and tuples as JSON has them."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
