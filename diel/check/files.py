"""Checks of `files`: they exist, for each point that is known before the run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice, product
from typing import Any

from diel.check.flaws import Check
from diel.check.names import Names
from diel.errors import counted
from diel.expressions import ExpressionError, Template, parse, parse_expression
from diel.files import flaw_of
from diel.spec import Stage
from diel.spec.forms.axis import Points
from diel.spec.model import found as shown

_LOOKED_AT = 100_000
"""The most paths to look up for one entry; tasks check the others before they run."""
_ROWS = 1_000_000
_SHOWN = 8

Scope = dict[str, Any]


def check_files(
    found: Check, name: str, names: Names, values: Mapping[str, Any], later: Collection[str], *, anew: bool
) -> None:
    """Checks the paths of `files`. Hyperparameters in `later` get their value during the run.

    Without `anew` files of single points are left to their tasks: a run that goes on may not need them.
    """
    stage = found.workflow.stages[name]
    hint = "paths are relative to the workflow file"
    folder = found.document.path.parent
    for label, text in stage.files.items():
        key = ("stages", name, "files", label)
        if not isinstance(text, str):
            continue  # a template, which is read with the workflow
        try:
            template = parse(text)
            if template.constant:
                path = template.text_value({})
                if flaw := flaw_of(found.folder / path):
                    absent = flaw == "is not there"
                    message = f"no file {shown(path)} in {folder}" if absent else f"{shown(path)} {flaw}"
                    found.add(key, message, hint)
            elif anew:
                missing, count = _missing(found, stage, template, names, values, later)
                if missing:
                    found.add(key, _listed(missing, count), hint)
        except ExpressionError as error:
            found.add(key, error.message, error.hint, error.offset)


def _listed(missing: list[str], count: int) -> str:
    if count == 1:
        return f"{missing[0]} cannot be read"
    more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
    return f"{len(missing):,} of {counted(count, 'file')} cannot be read: {', '.join(missing[:_SHOWN])}{more}"


def _missing(
    found: Check,
    stage: Stage,
    template: Template,
    names: Names,
    values: Mapping[str, Any],
    later: Collection[str],
) -> tuple[list[str], int]:
    """The paths that cannot be read, each with its point, and how many were looked up."""
    when = parse_expression(stage.when) if isinstance(stage.when, str) else None
    read = template.references | (when.references if when is not None else frozenset())
    axes = axes_read(found, stage, read, names, later)
    missing: list[str] = []
    seen: set[str] = set()
    if axes is None or stage.when is False:
        return missing, 0
    for scope in islice(scopes(found, axes, values), _LOOKED_AT):
        if when is not None and not when.value(scope):
            continue
        path = template.text_value(scope)
        if path in seen:
            continue
        seen.add(path)
        if flaw := flaw_of(found.folder / path):
            point = ", ".join(
                f"{one} = {shown(scope[one])}" for read in axes.values() for one in sorted(read)
            )
            why = "" if flaw == "is not there" else f" {flaw}"
            missing.append(f"{shown(path)}{why}" + (f" ({point})" if point else ""))
    return missing, len(seen)


def axes_read(
    found: Check, stage: Stage, read: Collection[tuple[str, ...]], names: Names, later: Collection[str]
) -> dict[str, set[str]] | None:
    """The parameters that are read, by axis; None if only the run will show them."""
    axes: dict[str, set[str]] = {}
    for chain in read:
        axis = names.parameters.get(chain[0], chain[0])
        if axis in stage.over:
            if axis not in found.points:
                return None
            known = found.points[axis].parameters
            wanted = chain[0] if chain[0] in known else chain[1] if len(chain) > 1 else ""
            axes.setdefault(axis, set()).update({wanted} & set(known) or known)
        elif chain[0] != "hp" or len(chain) < 2 or chain[1] in later:
            return None
    return axes


def scopes(found: Check, axes: Mapping[str, set[str]], values: Mapping[str, Any]) -> Iterator[Scope]:
    """What an expression can read, at each combination of the axis parameters that it reads."""
    for rows in product(*(list(distinct(found.points[axis], wanted)) for axis, wanted in axes.items())):
        scope: Scope = {"hp": values}
        for axis, row in zip(axes, rows, strict=True):
            scope |= {axis: row, **row}
        yield scope


def distinct(points: Points, wanted: set[str]) -> Iterator[Scope]:
    """The different values of some parameters among the points of an axis."""
    columns = [place for place, name in enumerate(points.parameters) if name in wanted]
    names = [points.parameters[place] for place in columns]
    seen: set[str] = set()
    for index in range(min(len(points), _ROWS)):
        row = points.values(index)
        values = [row[place] for place in columns]
        if (mark := repr(values)) not in seen:
            seen.add(mark)
            yield dict(zip(names, values, strict=True))
            if len(seen) == _LOOKED_AT:
                return
