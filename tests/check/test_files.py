"""Files that a stage names are there, for each point that is known before the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import SpecError
from tests.check.asking import checked, the_problem

FLOW = """
axes: {{n: {{values: [1, 2, 3]}}}}
stages:
  a: {{command: [echo], over: [n], files: {{data: "{path}"}}{more}}}
"""


def test_files_of_all_points_are_there(folder: Path) -> None:
    for number in (1, 2, 3):
        (folder / f"{number}.csv").touch()
    checked(folder, FLOW.format(path="${{ n }}.csv", more=""))


def test_points_whose_file_is_not_there_are_listed(folder: Path) -> None:
    (folder / "2.csv").touch()
    problem = the_problem(folder, FLOW.format(path="${{ n }}.csv", more=""))
    assert problem.message == "2 of 3 files cannot be read: '1.csv' (n = 1), '3.csv' (n = 3)"
    assert problem.hint == "paths are relative to the workflow file"


def test_a_point_that_does_not_run_needs_no_file(folder: Path) -> None:
    (folder / "2.csv").touch()
    checked(folder, FLOW.format(path="${{ n }}.csv", more=', when: "n == 2"'))


def test_a_run_that_goes_on_looks_for_no_file_of_a_point(folder: Path) -> None:
    kept = checked(folder, "stages: {a: {command: [echo]}}").hyperparameters
    checked(folder, FLOW.format(path="${{ n }}.csv", more=""), recorded=kept)
    with pytest.raises(SpecError, match="no file"):
        checked(folder, FLOW.format(path="all.csv", more=""), recorded=kept)
