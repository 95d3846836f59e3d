"""How the inputs of a stage are shared out: which part of each a task gets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from diel.artifacts import Artifact
from diel.axes.domain import Group
from diel.graph import Key
from diel.spec import Stage
from diel.staging.item import Shard, flat
from diel.tasks.link import Link


class Sharing:
    """The inputs of one stage that are shared out."""

    def __init__(self, stage: Stage, links: Mapping[str, Link]) -> None:
        self._given = {name: given for name, given in stage.inputs.items() if given.shard is not None}
        self._links = links
        self._parts: dict[Key, tuple[Group, dict[int, int]]] = {}

    def shards(self, index: int, inputs: Mapping[str, Any]) -> dict[str, Shard]:
        found = {}
        for name, given in self._given.items():
            assert given.shard is not None
            by, value = given.shard.by, inputs[name]
            listed = flat(value) if isinstance(value, list) else [value]
            digests = tuple(item.digest if type(item) is Artifact else "" for item in listed)
            # An array is shared out by its rows, so that each task needs it whole: it is brought before.
            late = given.stage is not None and (isinstance(value, list) or os.path.isdir(str(value)))
            part, parts = self._part(self._links[name], index) if by == "task" else (0, 1)
            found[name] = Shard(by, given.shard.seed, part, parts, digests if any(digests) else (), late)
        return found

    def _part(self, link: Link, index: int) -> tuple[int, int]:
        """Which of the tasks that read the same this one is, and how many they are."""
        group = link.group_of_downstream(index)
        known = self._parts.get(link.edge.key)
        if known is None or known[0] != group:
            known = group, {task: place for place, task in enumerate(link.dependents(group))}
            self._parts[link.edge.key] = known
        return known[1][index], len(known[1])


def keyed(shards: Mapping[str, Shard]) -> dict[str, str]:
    """Shards as they enter a key: another part, or another order, is another task."""
    return {
        f"shard of {name}": (f"task {shard.part} of {shard.parts}" if shard.by == "task" else "by rank")
        + f", seed {shard.seed}"
        for name, shard in shards.items()
    }
