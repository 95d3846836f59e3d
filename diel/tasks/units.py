"""Units of what a stage reads: how each input is converted that expects other units than were promised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diel.artifacts import Artifact
from diel.graph.uses import unread
from diel.spec import Stage
from diel.tasks.link import Link
from diel.units import Rule, UnitsError, conversions


def in_units(stage: Stage, name: str, rule: Rule, value: Any) -> Any:
    """A value that is converted, or a file whose reader will. Raises UnitsError where there is none."""
    if not _is_of_files(value):
        return rule.apply(value)
    if (which := unread(stage, name)) is not None:
        raise UnitsError(f"nothing converts a file {which}", "drop `units`, and convert it in the program")
    return value


def _is_of_files(value: Any) -> bool:
    return any(map(_is_of_files, value[:1])) if isinstance(value, list) else type(value) is Artifact


def conversions_of(stage: Stage, links: Iterable[Link]) -> dict[str, Rule]:
    """The rules by input; empty where all units are the same."""
    found: dict[str, Rule] = {}
    for link in links:
        name, read = link.edge.name, str(link.edge.output)
        wanted = stage.inputs[name].units if name in stage.inputs else None
        if name is None or wanted is None:
            continue
        made = link.up.spec.outputs[read].units if read in link.up.spec.outputs else link.up.units_of(read)
        if made is not None and made != wanted and (rule := conversions(made, wanted)) is not None:
            found[name] = rule
    return found
