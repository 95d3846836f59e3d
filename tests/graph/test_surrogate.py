"""What a surrogate answers, and who teaches it."""

from __future__ import annotations

from typing import Any

import pytest

from diel.graph.service import answered, teachers, values_of
from diel.modules.signature import Signature
from tests.graph.building import built, workflow

ASKED = {"service": "serve", "tolerance": 0.1}


def returning(**kinds: str) -> Signature:
    """A module that returns these, `path` being a file."""
    artifacts = frozenset(name for name in kinds if name == "path")
    return Signature("m", "simulation", "", (), variadic=False, returns=kinds, artifacts=artifacts)


@pytest.mark.parametrize(
    ("named", "signature", "outputs"),
    [
        (["a", "b"], None, ("a", "b")),
        ([], returning(y="float", path="diel.File"), ("y",)),
        ([], returning(y="float", z="float"), ()),
        ([], None, ()),
    ],
)
def test_the_values_that_are_named_are_answered_or_else_the_only_one(
    named: list[str], signature: Signature | None, outputs: tuple[str, ...]
) -> None:
    stage = {"command": None, "module": "m", "surrogate": {**ASKED, "outputs": named}}
    assert answered(workflow({"s": stage}).stages["s"], signature) == outputs


def test_a_command_declares_its_values_and_a_stage_without_a_surrogate_answers_none() -> None:
    outputs = {"y": {"value": "float"}, "f": "y.csv"}
    stages = workflow({"s": {"outputs": outputs, "surrogate": ASKED}, "t": {"outputs": outputs}}).stages
    assert values_of(stages["s"], None) == {"y": "float"}
    assert answered(stages["s"], None) == ("y",)
    assert answered(stages["t"], None) == ()


def test_teachers_are_all_whose_results_reach_the_service_but_by_the_stage_itself() -> None:
    simulate = {"command": ["sim"], "over": ["r"]}
    before: dict[str, Any] = {"from": "s.x", "at": {"r": "previous"}, "initially": 0}
    graph = built(
        {
            "first": {"command": ["sim"]},
            "clean": {"inputs": {"x": "first.x"}},
            "train": {"over": ["r"], "inputs": {"x": "clean.x", "more": before}, "after": ["noise"]},
            "noise": {},
            "helper": {"service": True},
            "serve": {"over": ["r"], "service": True, "inputs": {"m": "train.m"}, "services": ["helper"]},
            "apart": simulate,
            "s": {**simulate, "inputs": {"y": "apart.y"}, "surrogate": {**ASKED, "outputs": ["x"]}},
        },
        {"r": {"loop": {"max": 3}}},
    )
    assert teachers(graph, "s") == (("first", "clean", "train"), ("first",))
