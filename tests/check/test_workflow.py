"""A check tells all that can be known to be wrong, each at its place, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.planning.check import check
from tests.check.asking import HEAD, checked, problems, the_problem

GOOD = """
hyperparameters:
  rate: {type: float, default: 0.1, low: 0.0, high: 1.0}
axes:
  temperature: {linspace: [0.5, 2.0, 4]}
  density: {values: [0.3, 0.5]}
  point: {from: make.points}
stages:
  make: {command: 'echo "{}" > $DIEL_RESULT'}
  simulate: {module: m:melt, over: [temperature, density]}
  train: {module: m:fit, inputs: {runs: simulate.energy}, params: {rate: "${{ hp.rate * 2 }}"}}
  report: {command: [echo, "${{ train.loss }}", "${{ simulate.temperature }}"], over: [point]}
"""


def test_a_workflow_that_fits_together_is_checked(folder: Path) -> None:
    found = checked(folder, GOOD)
    assert found.counts == {"temperature": 4, "density": 2, "point": None}
    assert {name: found.kind(name) for name in found.workflow.stages} == {
        "make": "analysis",
        "simulate": "simulation",
        "train": "training",
        "report": "analysis",
    }
    assert set(found.modules) == {"simulate", "train"}
    assert found.graph.order == ("make", "simulate", "train", "report")
    assert found.hyperparameters.plain() == {"rate": 0.1}


def test_a_stages_own_kind_comes_before_its_modules(folder: Path) -> None:
    found = checked(folder, "stages:\n  s: {module: m:melt, kind: inference, params: {temperature: 1.0}}\n")
    assert found.kind("s") == "inference"


def test_all_problems_are_told_at_once_in_the_files_order(folder: Path) -> None:
    found = problems(
        folder,
        """
        axes:
          a: {file: none.csv}
        stages:
          one: {module: m:nothing}
          two: {command: [echo, "${{ nam }}"], over: [b]}
          three: {command: [echo], inputs: {x: on.y}, files: {script: gone.sh}}
        """,
    )
    assert [(p.line, p.key) for p in found] == [
        (5, "axes.a.file"),
        (7, "stages.one.module"),
        (8, "stages.two.command.1"),
        (8, "stages.two.over.0"),
        (9, "stages.three.inputs.x"),
        (9, "stages.three.files.script"),
    ]


def test_settings_that_do_not_fit_are_told_beside_the_files_problems(folder: Path) -> None:
    with pytest.raises(UsageError, match="rate"):
        checked(folder, GOOD, settings=["rate=7"])
    assert checked(folder, GOOD, settings=["rate=0.5"]).hyperparameters.plain() == {"rate": 0.5}


def test_files_and_modules_are_looked_for_beside_the_workflow(folder: Path) -> None:
    (folder / "script.sh").touch()
    text = HEAD + "stages:\n  s: {module: m:melt, params: {temperature: 1}, files: {f: script.sh}}\n"
    (folder / "w.yaml").write_text(text)
    assert check(folder / "w.yaml", cwd=Path("/")).modules["s"].function == "melt"


def test_a_file_that_a_stage_reads_must_be_there(folder: Path) -> None:
    problem = the_problem(folder, "stages:\n  s: {command: [cat], files: {f: gone.txt}}\n")
    assert problem.key == "stages.s.files.f"
    assert "no file 'gone.txt'" in problem.message
    assert "relative to the workflow file" in problem.hint


def test_one_place_has_one_problem(folder: Path) -> None:
    """A point that is picked wrongly in two ways, or a stage that is not there."""
    problem = the_problem(
        folder,
        """
        axes: {a: {values: [1, 2]}}
        stages:
          up: {command: [echo], over: [a], outputs: {x: {value: int}}}
          down: {command: [echo], inputs: {x: {from: up.x, at: {a: best}}}}
        """,
    )
    assert "is not a search" in problem.hint
