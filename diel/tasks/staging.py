"""How the stages of a run use the disks of their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.artifacts import Artifact
from diel.attempt.bundle import Staging
from diel.site import Shape, Site, launcher_words
from diel.spec import Resources, Stage
from diel.staging.item import AT_NODE, Item, Local, item_of


def staging_of(site: Site, stage: Stage, shape: Shape) -> Staging:
    """What the workers of a stage that moves data have to know."""
    drains = tuple(name for name, output in stage.outputs.items() if output.drain)
    each_node: tuple[str, ...] = ()
    if shape.nodes:  # they are not the node of the task's worker
        each_node = launcher_words(site, Resources(nodes=shape.nodes, ranks=shape.nodes, ranks_per_node=1))
    return Staging(Local(site.local.dir or "", site.local.size), each_node, drains)


def copies(inputs: Mapping[str, Any], names: set[str]) -> tuple[dict[str, Any], tuple[Item, ...]]:
    """Inputs with what stands for their copies in the place of the artifacts of some, and these."""
    items: dict[str, Item] = {}
    found = {name: _copied(value, items) if name in names else value for name, value in inputs.items()}
    return found, tuple(items.values())


def _copied(value: Any, items: dict[str, Item]) -> Any:
    if type(value) is Artifact:
        item = item_of(value, value.digest)
        items[item.key] = item
        return Artifact(item.below(AT_NODE), value.digest)
    return [_copied(one, items) for one in value] if isinstance(value, list) else value
