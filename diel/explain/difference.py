"""One part of a task's key that differs from an earlier run, and how mappings differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diel.table import shown
from diel.tasks.recipe import digest_of_values


@dataclass(frozen=True)
class Difference:
    """One part of a key that differs from an earlier run."""

    part: str
    """module, command, params, files, env, values or inputs."""
    name: str
    """What within the part, as `hp.hidden`; empty where it cannot be told."""
    text: str
    """The change in words."""
    old: Any = None
    new: Any = None
    because: tuple[str, ...] = ()
    """For an input: why it differs, further and further upstream."""


def differences(part: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """The entries of a mapping that are new, gone or differ, each called by its name."""
    for name in dict.fromkeys([*new, *old]):
        before, now = plain(old.get(name)), plain(new.get(name))
        if name not in old:
            yield Difference(part, name, f"{name} is new: {shown(now)}", None, now)
        elif name not in new:
            yield Difference(part, name, f"{name} is gone: {shown(before)}", before, None)
        elif not is_same(before, now):
            yield Difference(part, name, f"{name}: {shown(before)} → {shown(now)}", before, now)


def is_same(old: Any, new: Any) -> bool:
    """Whether two values are the same in a key, where 1 and 1.0 and true are three."""
    return digest_of_values({"": old}) == digest_of_values({"": new})


def plain(value: Any) -> Any:
    """A value with mappings and tuples as JSON has them."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
