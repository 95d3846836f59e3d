"""The environment of a task: what it is, and what of it changed since an earlier run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from diel.environments.prepared import Prepared
from diel.table import shown

_NAMED = re.compile(r"([\w.-]+?)(?:==|-(?=\d))(\S+)")
"""A package and its version, as uv and as Conda write it."""
SHOWN = 5
"""Packages of which a change is told."""


def environment_entry(made: Prepared | None) -> dict[str, str]:
    """A task's environment for people, by its name."""
    return {} if made is None else {made.name: f"{made.text}, digest {made.digest}"}


def environment_changes(old: Prepared | None, new: Prepared | None) -> Iterator[tuple[str, str, Any, Any]]:
    """What differs: the key, the change in words, and what was and is there."""
    if old is None or new is None:
        was_named, is_named = (None if one is None else one.name for one in (old, new))
        told = f"{was_named or 'none'} → {is_named or 'none'}"
        yield "", f"its environment: {told}", was_named, is_named
        return
    was, now = ({**one.identity} for one in (old, new))
    for key in dict.fromkeys([*now, *was]):
        before, after = was.get(key), now.get(key)
        if before != after:
            for name, text in _told(key, before, after):
                yield name, f"environment '{new.name}': {text}", before, after


def _told(key: str, before: Any, after: Any) -> Iterator[tuple[str, str]]:
    if before is None or after is None:
        yield key, f"`{key}` is {'new' if before is None else 'gone'}"
    elif key in ("python", "conda"):
        yield key, f"{key}: {_packages(before, after)}"
    elif key == "container":
        same = before["image"] == after["image"]
        yield key, f"container: {'other mounts' if same else 'another image'}"
    elif isinstance(before, Mapping):
        for name in dict.fromkeys([*after, *before]):
            if before.get(name) != after.get(name):
                a, b = (shown(one[name]) if name in one else "nothing" for one in (before, after))
                yield f"{key}.{name}", f"{key}.{name}: {a} → {b}"
    else:
        yield key, f"{key}: {shown(before)} → {shown(after)}"


def _packages(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The packages that differ: `numpy 1.26.4 → 2.0.1, scipy is new`."""
    was, now = (
        {"Python": one.get("version"), **dict(map(_parts, one["packages"]))} for one in (before, after)
    )
    changed = [
        f"{name} {was[name]} → {now[name]}"
        if name in was and name in now
        else f"{name} is {'new' if name in now else 'gone'}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return ", ".join(changed[:SHOWN]) + more or "it is made anew"


def _parts(line: str) -> tuple[str, str]:
    found = _NAMED.match(line)
    return (found[1], found[2]) if found is not None else (line, line)
