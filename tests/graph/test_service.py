"""Who asks a service, and what there is to read of one."""

from __future__ import annotations

from typing import Any

import pytest

from diel.workflow.graph.service import answered, teachers, values_of
from diel.workflow.modules.signature import Signature
from tests.graph.building import AXES, built, flaws_of, workflow

SERVE = {"service": True}
LOOP: dict[str, Any] = {**AXES, "r": {"loop": {"max": 3}}}


def test_who_asks_a_service_has_an_edge_from_it_that_reads_nothing() -> None:
    graph = built({"serve": {**SERVE, "over": ["a"]}, "ask": {"over": ["a", "b"], "services": ["serve"]}})
    (edge,) = graph.edges
    assert (edge.service, edge.optional, edge.output, edge.matched) == (True, False, None, ("a",))
    assert edge.key == ("stages", "ask", "services", 0)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ({"serve": {}, "ask": {"services": ["serve"]}}, "'serve' is not a service"),
        ({"serve": SERVE, "ask": {"services": ["server"]}}, "no stage 'server'"),
        ({"serve": SERVE}, "no stage asks the service 'serve'"),
        (
            {"serve": {**SERVE, "over": ["a", "b"]}, "ask": {"over": ["b"], "services": ["serve"]}},
            "'serve' has a service for each a, and 'ask' does not say which one it asks",
        ),
        (
            {"serve": SERVE, "ask": {"services": ["serve"], "after": ["serve"]}},
            "'serve' is a service, and has no end to wait for",
        ),
        (
            {"serve": SERVE, "ask": {"services": ["serve"], "inputs": {"x": "serve.x"}}},
            "'serve' is a service, and has nothing to read",
        ),
        (
            {"a_b": SERVE, "A_B": SERVE, "ask": {"services": ["a_b", "A_B"]}},
            "'a_b' and 'A_B' share the variable DIEL_SERVICE_A_B_URL",
        ),
    ],
)
def test_a_service_is_asked_and_not_read(stages: dict[str, Any], message: str) -> None:
    assert flaws_of(stages)[0].message == message


def served(service: object, **given: Any) -> dict[str, Any]:
    """A service that takes what a loop makes."""
    newest = {"from": "train.m", "at": {"r": "last"}, **given}
    return {
        "train": {"over": ["r"]},
        "make": {},
        "serve": {"service": service, "inputs": {"m": newest, "fixed": "make.x"}},
        "ask": {"services": ["serve"]},
    }


def test_a_service_that_reloads_is_up_before_the_loop_ends() -> None:
    def edge_of(service: object, **given: Any) -> tuple[bool, bool]:
        edges = {edge.name: edge for edge in built(served(service, **given), LOOP).edges}
        assert not edges["fixed"].renewed
        return edges["m"].renewed, edges["m"].follows

    assert edge_of(True) == (False, False)
    assert edge_of({"reload": True}) == (True, False)
    assert edge_of({"reload": True}, initially="m.pt") == (True, True)


def test_what_is_there_before_the_first_round_is_for_a_service_that_reloads() -> None:
    (flaw,) = flaws_of(served(True, initially="m.pt"), LOOP)
    assert flaw.key == ("stages", "serve", "inputs", "m", "initially")
    (flaw,) = flaws_of({"serve": {"service": {"reload": True}}, "ask": {"services": ["serve"]}})
    assert flaw.message == "nothing makes newer inputs for it"


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
