"""How the stages of a run use the disks of their nodes."""

from __future__ import annotations

from typing import Any

from diel.artifacts import Artifact
from diel.attempt.bundle import Staging
from diel.site import Shape, Site, launcher_words
from diel.spec import Resources, Stage
from diel.staging.item import AT_NODE, Item, Local, item_of


def staging_of(site: Site, stage: Stage, shape: Shape) -> Staging | None:
    """What a stage's workers have to know; None where it does not use their nodes' disks."""
    drains = tuple(name for name, output in stage.outputs.items() if output.drain)
    reads = any(given.stage is not None or given.shard is not None for given in stage.inputs.values())
    if not drains and not reads:
        return None
    each_node: tuple[str, ...] = ()
    if shape.nodes:  # they are not the node of the task's worker
        each_node = launcher_words(site, Resources(nodes=shape.nodes, ranks=shape.nodes, ranks_per_node=1))
    return Staging(Local(site.local.dir or "", site.local.size), each_node, drains)


def copies(value: Any, items: dict[str, Item]) -> Any:
    """A value with what stands for its copies in the place of artifacts; these are added to `items`."""
    if type(value) is Artifact:
        item = item_of(value, value.digest)
        items[item.key] = item
        return Artifact(item.below(AT_NODE), value.digest)
    return [copies(one, items) for one in value] if isinstance(value, list) else value
