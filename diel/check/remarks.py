"""Warnings: what is right, and hardly meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from diel.check.command import remarks
from diel.check.workflow import Checked
from diel.errors import Problem
from diel.project.seeds import enlarged_designs


def warnings(checked: Checked, runs: Path) -> Iterator[Problem]:
    """All of them, each at its place. `runs` has the earlier runs of the project."""
    document = checked.document
    yield from remarks(document)
    for label, run, count in enlarged_designs(document.spec, runs):
        message = f"a Latin hypercube of another size is another design: none of the {count} points of {run} "
        hint = "`sobol` and `uniform` keep the points that they began with, when they are enlarged"
        yield document.problem(("axes", label, "sample", "points"), f"{message}comes again", hint)
