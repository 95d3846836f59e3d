"""Units of what a stage reads: how each input is converted that expects other units than were promised."""

from __future__ import annotations

from collections.abc import Iterable

from diel.spec import Stage
from diel.tasks.link import Link
from diel.units import Rule, conversions


def conversions_of(stage: Stage, links: Iterable[Link]) -> dict[str, Rule]:
    """The rules by input; empty where all units are the same."""
    found: dict[str, Rule] = {}
    for link in links:
        name, output = link.edge.name, link.up.spec.outputs.get(str(link.edge.output))
        wanted = stage.inputs[name].units if name in stage.inputs else None
        if (
            name is not None
            and wanted is not None
            and output is not None
            and output.units not in (None, wanted)
        ):
            rule = conversions(output.units, wanted)
            if rule is not None:
                found[name] = rule
    return found
