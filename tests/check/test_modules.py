"""What a stage gives a Python module fits the function's signature."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, problems, the_problem

AXES = """axes:
  temperature: {linspace: [0.5, 2.0, 4]}
  word: {values: [a, b]}
  open: {from: up.points}
"""
UP = "  up: {command: 'make > $DIEL_RESULT'}\n"


def stage(text: str) -> str:
    return f"{AXES}stages:\n{UP}  s: {{module: m:melt, {text}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        "params: {temperature: 1.0}",
        "params: {temperature: 1}",
        "over: [temperature]",
        "over: [temperature], params: {density: 0.5, steps: 10}",
        "over: [open]",
        "inputs: {temperature: up.t}",
        "params: {temperature: '${{ up.t }}'}",
        "over: [word], params: {temperature: 1}",
    ],
)
def test_parameters_come_from_params_inputs_and_axes(folder: Path, text: str) -> None:
    checked(folder, stage(text))


@pytest.mark.parametrize(
    ("text", "key", "message", "hint"),
    [
        ("params: {}", "stages.s", "temperature", ""),
        ("params: {temperatur: 1.0}", "stages.s.params", "temperatur", "temperature"),
        ("params: {temperature: cold}", "stages.s.params.temperature", "cold", ""),
        ("params: {temperature: 1, steps: 1.5}", "stages.s.params.steps", "1.5", ""),
        ("params: {temperature: '${{ 1 + 1 }}', steps: '${{ 3 / 2 }}'}", "stages.s.params.steps", "1.5", ""),
        (
            "inputs: {temperature: up.t}, params: {temperature: 1}",
            "stages.s.inputs",
            "`params` too",
            "rename",
        ),
    ],
)
def test_what_does_not_fit_is_told_at_its_place(
    folder: Path, text: str, key: str, message: str, hint: str
) -> None:
    found = problems(folder, stage(text))
    assert any(
        p.key.startswith(key) and message in f"{p.key} {p.message}" and hint in f"{p.message} {p.hint}"
        for p in found
    ), found


def test_an_axis_of_the_wrong_type_is_told_at_the_axis(folder: Path) -> None:
    text = "axes: {temperature: {values: [cold, warm]}}\nstages: {s: {module: m:melt, over: [temperature]}}\n"
    assert the_problem(folder, text).key.startswith("axes.temperature")


def test_a_hyperparameter_of_the_wrong_type_is_told(folder: Path) -> None:
    text = """
    hyperparameters: {steps: {type: str, default: many}}
    stages:
      s: {module: m:melt, params: {temperature: 1.0, steps: "${{ hp.steps }}"}}
    """
    assert the_problem(folder, text).key == "stages.s.params.steps"


def test_a_module_that_is_not_there_is_told_with_the_nearest(folder: Path) -> None:
    problem = the_problem(folder, "stages:\n  s: {module: m:mellt}\n")
    assert problem.key == "stages.s.module"
    assert "melt" in problem.hint


@pytest.mark.parametrize(
    ("resources", "good"),
    [("", False), ("resources: {ranks: 2}", True), ("resources: {ranks_per_node: 2}", True)],
)
def test_a_module_that_needs_a_communicator_needs_ranks(folder: Path, resources: str, good: bool) -> None:
    (folder / "modules" / "parallel.py").write_text(
        "import diel\nfrom mpi4py import MPI\n\n\n"
        '@diel.module(kind="simulation")\ndef run(comm: MPI.Comm) -> dict:\n    return {"n": 1}\n'
    )
    text = f"stages:\n  s: {{module: parallel, {resources}}}\n"
    if good:
        checked(folder, text)
    else:
        problem = the_problem(folder, text)
        assert "needs MPI ranks for its parameter 'comm'" in problem.message
        assert "resources: {ranks: 2}" in problem.hint
