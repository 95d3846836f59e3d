"""Asking for a workflow to be checked, and for what is wrong with it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from diel.base.errors import Problem, SpecError
from diel.planning.check import CheckedWorkflow, check

HEAD = "diel: 1\nname: w\n"


def checked(folder: Path, text: str, **more: object) -> CheckedWorkflow:
    return check(folder / "w.yaml", text=HEAD + textwrap.dedent(text), **more)  # type: ignore[arg-type]


def problems(folder: Path, text: str) -> list[Problem]:
    with pytest.raises(SpecError) as error:
        checked(folder, text)
    return list(error.value.problems)


def the_problem(folder: Path, text: str) -> Problem:
    (problem,) = problems(folder, text)
    return problem
