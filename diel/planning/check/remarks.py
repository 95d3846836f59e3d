"""Warnings of valid keys that are hardly meant."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from diel.base.errors import Problem
from diel.planning.check.command import remarks
from diel.planning.check.scripts import unknown_files
from diel.planning.check.workflow import CheckedWorkflow
from diel.store.project.run_file import enlarged_designs
from diel.workflow.load import Document
from diel.workflow.load.document import leading_zeros
from diel.workflow.models.forms.rows import DerivedAxis, FileForm, types_of
from diel.workflow.models.variables import read_variables


def warnings(checked: CheckedWorkflow, runs: Path) -> Iterator[Problem]:
    """Yield all remarks, each at its place. `runs` has the earlier runs of the project."""
    document = checked.document
    yield from remarks(document)
    yield from undeclared_variables(document)
    yield from unknown_files(document, checked.points)
    for label, run, count in enlarged_designs(document.spec, runs):
        message = f"a Latin hypercube of another size is another design: none of the {count} points of {run} "
        hint = "`sobol` and `uniform` keep the points that they began with, when they are enlarged"
        yield document.problem(("axes", label, "sample", "points"), f"{message}comes again", hint)
    for label, points in checked.points.items():
        for name, (cell, value) in points.lost.items():
            kinds = column_types(checked)[label] | dict.fromkeys(points.lost, "str")
            hint = f"to keep it as it is written, add columns: {{{_written(kinds)}}}"
            message = f"column '{name}': {cell} is read as {value}"
            yield document.problem(("axes", label, "file"), message, hint)
    yield from leading_zeros(document)
    yield from same_stages(document)


_APART = {"description", "kind", "after", "publishes", "extends", "retries", "on", "max_failures", "hold"}
"""Keys of a stage that change nothing in what it computes."""


def same_stages(document: Document) -> Iterator[Problem]:
    """Yield stages that are the same computation as one before: what draws at random draws the same."""
    first: dict[str, str] = {}
    for name, stage in document.spec.stages.items():
        apart = {*_APART, "timeout", *(["outputs"] if stage.module else [])}
        if stage.service is None and (stage.module or stage.outputs):
            other = first.setdefault(repr(stage.model_dump(exclude=apart, warnings=False)), name)
            if other != name:
                message = f"stages '{other}' and '{name}' compute the same, random numbers included"
                hint = "give one of them another parameter, such as a seed"
                place = "module" if stage.module else "command"
                yield document.problem(("stages", name, place), message, hint)


def column_types(checked: CheckedWorkflow) -> dict[str, dict[str, str]]:
    """Return the types of columns by axis: as files list them, and as results declare them."""
    types: dict[str, dict[str, str]] = {}
    for label, axis in checked.workflow.axes.items():
        if isinstance(axis, DerivedAxis) and axis.types:
            types[label] = dict(axis.types)
        elif isinstance(axis, FileForm) and label in checked.points:
            points = checked.points[label]
            types[label] = dict(zip(points.parameters, map(types_of, points.columns), strict=True))
    return types


def column_lines(checked: CheckedWorkflow) -> list[str]:
    """Return the types of columns, a line for each axis that has them."""
    return [f"{label}: {_written(kinds)}" for label, kinds in column_types(checked).items()]


def _written(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in kinds.items())


_SECRET = re.compile("TOKEN|KEY|SECRET|PASS", re.IGNORECASE)
_NAMED = {"description", "python", "variables"}
_LONGEST = 60
"""Characters of a value that a warning shows."""


def undeclared_variables(document: Document) -> Iterator[Problem]:
    """Yield undeclared variables: the place that reads one, its value in this shell, and a declaration."""
    for stage, spec in document.spec.stages.items():
        around = document.spec.environments.get(spec.environment or "")
        others = spec.is_surrounded and not (around and around.model_fields_set <= _NAMED)
        for name, place in read_variables(document.spec, spec).items():
            value = os.environ.get(name)
            if value is None and (
                others or re.search(rf"(?<![\w$/{{'\"]){name}\b(?![/'\"])", str(spec.command))
            ):
                continue
            if value is None:
                now, text = "not set here, so the command finds none but its machine's", "VALUE"
            else:
                unless = " unless its environment sets another" if others else ""
                now, text = f"that of this shell{unless}, and in the key of each task", json.dumps(value)
            shown = "VALUE" if _SECRET.search(name) or len(text) > _LONGEST else text
            message = f"the command reads ${name}, which nothing declares: it is {now}"
            hint = f"write `env: {{{name}: {shown}}}` in the stage, or set it in its environment"
            yield document.problem(("stages", stage, "command"), message, hint, offset=place or None)
