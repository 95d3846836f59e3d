"""Checks of `files`: they exist, for each point that is known before the run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from diel.check.flaws import Check
from diel.check.known import MOST, Known
from diel.errors import counted
from diel.expressions import ExpressionError, Template, parse, parse_expression
from diel.files import flaw_of
from diel.spec import Stage
from diel.spec.model import found as shown

_SHOWN = 8


def check_files(found: Check, name: str, values: Mapping[str, Any], *, anew: bool) -> None:
    """Checks the paths of `files`.

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
                missing, count = _missing(found, stage, template, Known.of(found, name, values))
                if missing:
                    found.add(key, _listed(missing, count), hint)
        except ExpressionError as error:
            found.add(key, error.message, error.hint, error.offset)


def _listed(missing: list[str], count: int) -> str:
    if count == 1:
        return f"{missing[0]} cannot be read"
    more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
    return f"{len(missing):,} of {counted(count, 'file')} cannot be read: {', '.join(missing[:_SHOWN])}{more}"


def _missing(found: Check, stage: Stage, template: Template, known: Known) -> tuple[list[str], int]:
    """The paths that cannot be read, each with its point, and how many were looked up."""
    when = parse_expression(stage.when) if isinstance(stage.when, str) else None
    read = template.references | (when.references if when is not None else frozenset())
    axes = known.axes(read)
    missing: list[str] = []
    seen: set[str] = set()
    if axes is None or stage.when is False:
        return missing, 0
    for place in islice(known.unlike(axes), MOST):
        scope = known.scope(axes, place)
        if when is not None and not when.value(scope):
            continue
        path = template.text_value(scope)
        if path in seen:
            continue
        seen.add(path)
        if flaw := flaw_of(found.folder / path):
            point = ", ".join(f"{one} = {shown(scope[one])}" for names in axes.values() for one in names)
            why = "" if flaw == "is not there" else f" {flaw}"
            missing.append(f"{shown(path)}{why}" + (f" ({point})" if point else ""))
    return missing, len(seen)
