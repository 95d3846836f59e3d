"""A workflow as a whole: its version, its names, and what its parts say of each other."""

from __future__ import annotations

from typing import Any

import pytest

from diel.workflow.models import Workflow
from tests.spec.flawed import flaws_of


def spec(**more: Any) -> dict[str, Any]:
    return {"diel": 1, "name": "w", "stages": {"s": {"command": ["x"]}}, **more}


@pytest.mark.parametrize("version", [2, "1", True, 1.0, None])
def test_a_file_of_another_version_is_refused(version: object) -> None:
    (flaw,) = flaws_of(Workflow, spec(diel=version))
    assert flaw.hint == "write `diel: 1`"


def test_a_name_is_an_axis_or_a_stage_and_all_that_are_both_are_told() -> None:
    axes = {"s": {"values": [1]}, "p": {"zip": {"t": [1], "u": [2]}}}
    stages = {name: {"command": ["x"]} for name in ("s", "t")}
    flaws = flaws_of(Workflow, spec(axes=axes, stages=stages))
    assert [(flaw.key, flaw.message) for flaw in flaws] == [
        (("axes", "s"), "'s' is both an axis and a stage"),
        (("axes", "p"), "axis 'p' gives a parameter 't', and 't' is a stage"),
    ]


def test_what_an_axis_draws_is_looked_up_in_the_registry() -> None:
    sample = {"sample": {"method": "uniform", "points": 2, "parameters": ["h", "g"]}}
    registry = {"h": {"type": "int", "low": 1, "high": 2}}
    (flaw,) = flaws_of(Workflow, spec(axes={"a": sample}, hyperparameters=registry))
    assert (flaw.key, flaw.message) == (("axes", "a", "sample", "parameters", 1), "no hyperparameter 'g'")


def test_a_workflow_knows_what_it_makes_use_of() -> None:
    plain = Workflow.model_validate(spec(axes={"a": {"range": 2}}))
    assert not plain.adaptive
    assert not plain.any_stage(lambda stage: stage.beside)
    looping = Workflow.model_validate(spec(axes={"r": {"loop": {"max": 2}}}))
    assert looping.adaptive
    assert looping.axes["r"].word == "loop"
