"""How the stages of a run use the disks of their nodes, and how inputs are split."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from diel.artifacts import Artifact
from diel.attempt.bundle import Staging
from diel.axes.domain import Group
from diel.errors import DielError
from diel.expressions.gathered import Gathered
from diel.graph import Key
from diel.site import Shape, Site, launcher_words
from diel.spec import Resources, Stage
from diel.staging.item import AT_NODE, Item, Local, Shard, flat, item_of
from diel.tasks.link import Link


def staging_of(site: Site, stage: Stage, shape: Shape) -> Staging:
    """What the workers of a stage that moves data must know."""
    drains = tuple(name for name, output in stage.outputs.items() if output.drain)
    each_node: tuple[str, ...] = ()
    if shape.nodes:  # they are not the node of the task's worker
        own = stage.resources.launcher
        wanted = Resources(nodes=shape.nodes, ranks=shape.nodes, ranks_per_node=1, launcher=own)
        each_node = launcher_words(site, shape.pool, wanted)
    return Staging(Local(site.local.dir or "", site.local.size), each_node, drains)


def copies(inputs: Mapping[str, Any], names: set[str]) -> tuple[dict[str, Any], tuple[Item, ...]]:
    """Inputs in which placeholders for copies replace some artifacts, and these artifacts."""
    items: dict[str, Item] = {}
    found = {name: _copied(value, items) if name in names else value for name, value in inputs.items()}
    return found, tuple(items.values())


def _copied(value: Any, items: dict[str, Item]) -> Any:
    if type(value) is Artifact:
        item = item_of(value, value.digest)
        items[item.key] = item
        return Artifact(item.below(AT_NODE), value.digest, value.inside, value.bytes)
    if isinstance(value, Gathered):
        return value.map(lambda one: _copied(one, items))
    return [_copied(one, items) for one in value] if isinstance(value, list) else value


class Sharing:
    """The inputs of one stage that are split."""

    def __init__(self, stage: Stage, links: Mapping[str, Link], is_wanted: Callable[[int], bool]) -> None:
        """`is_wanted` tells whether `when` holds for a task."""
        self._is_wanted = is_wanted
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
            # An array is split by its rows, so each task needs all of it: it is copied before.
            late = given.stage is not None and (isinstance(value, list) or os.path.isdir(str(value)))
            part, parts = self._part(self._links[name], index) if by == "task" else (0, 1)
            found[name] = Shard(by, given.shard.seed, part, parts, digests if any(digests) else (), late)
        return found

    def _part(self, link: Link, index: int) -> tuple[int, int]:
        """The number of this task among those that read the same input, and their count."""
        group = link.group_of_downstream(index)
        known = self._parts.get(link.edge.key)
        if known is None or known[0] != group:
            tasks = filter(self._runs, link.dependents(group))  # what `when` leaves out would read its share
            known = self._parts[link.edge.key] = group, {task: place for place, task in enumerate(tasks)}
        return known[1].get(index, 0), len(known[1])

    def _runs(self, index: int) -> bool:
        try:
            return self._is_wanted(index)
        except DielError:
            return True  # it fails, and says why


def keyed(shards: Mapping[str, Shard]) -> dict[str, str]:
    """Shards as they enter a key: another part or order makes another task."""
    return {
        f"shard of {name}": (f"task {shard.part} of {shard.parts}" if shard.by == "task" else "by rank")
        + f", seed {shard.seed}"
        for name, shard in shards.items()
    }
