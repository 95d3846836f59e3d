"""What in a stage mentions another stage or a hyperparameter, with the key that does."""

from __future__ import annotations

from diel.workflow.expressions import ExpressionError
from diel.workflow.graph import hyperparameter_reads
from diel.workflow.graph.uses import templates
from tests.graph.building import AXES, built, workflow


def test_an_order_without_data_follows_the_same_rules() -> None:
    graph = built({"one": {"over": ["a", "b"]}, "two": {"over": ["b"], "after": ["one"]}})
    (edge,) = graph.edges
    assert (edge.output, edge.name, edge.matched, edge.gathered) == (None, None, ("b",), ("a",))
    assert edge.key == ("stages", "two", "after", 0)


def test_an_expression_that_reads_another_stage_is_an_edge_told_once() -> None:
    down = {
        "command": ["echo", "${{ up.x }}", "${{ up.x + up.y }}"],
        "env": {"X": "${{ up.x }}"},
        "when": "up.x > 0",
        "over": ["a"],
    }
    graph = built({"up": {"over": ["a"]}, "down": down})
    assert [(e.output, e.key) for e in graph.edges] == [
        ("x", ("stages", "down", "command", 1)),
        ("y", ("stages", "down", "command", 2)),
    ]


def test_outputs_and_conditions_make_edges_too() -> None:
    down = {"outputs": {"f": "${{ up.x }}.txt"}, "when": "other.y"}
    graph = built({"up": {}, "other": {}, "down": down})
    assert {(e.upstream, e.output, e.key) for e in graph.edges} == {
        ("up", "x", ("stages", "down", "outputs", "f")),
        ("other", "y", ("stages", "down", "when")),
    }


def test_a_derived_axis_makes_its_stages_wait_for_its_maker() -> None:
    axes = {**AXES, "d": {"from": "make.points"}}
    graph = built({"make": {"over": ["a"]}, "use": {"over": ["a", "d"]}}, axes)
    (edge,) = graph.edges
    assert (edge.upstream, edge.downstream, edge.output, edge.axis) == ("make", "use", "points", "d")
    assert (edge.matched, edge.gathered) == (("a",), ())


def test_a_hyperparameter_as_an_input_is_no_edge() -> None:
    graph = built({"s": {"inputs": {"h": "hp.h"}}}, hyperparameters={"h": {"type": "int", "default": 1}})
    assert graph.edges == ()


def test_a_hyperparameter_that_a_trial_had_is_read_from_its_judge() -> None:
    search = {"search": {"trials": 2, "parameters": ["h"], "minimize": "judge.loss"}}
    best = {"from": "hp.h", "at": {"t": "best"}}
    graph = built(
        {"judge": {"over": ["t"]}, "use": {"inputs": {"h": best}}},
        {"t": search},
        hyperparameters={"h": {"type": "bool"}},
    )
    (edge,) = graph.edges
    assert (edge.upstream, edge.downstream, edge.hyperparameter, edge.output) == ("judge", "use", "h", None)
    assert edge.chosen["t"].word == "best"


def test_the_hyperparameters_that_a_stage_reads_are_told_with_the_first_key_of_each() -> None:
    stage = workflow(
        {
            "s": {
                "command": ["x", "${{ hp.a }}", "${{ hp.a + hp['b'] }}"],
                "inputs": {"c": "hp.c", "d": {"from": "hp.d", "at": {"t": "best"}}},
                "when": "hp.a > 0",
            }
        }
    ).stages["s"]
    here = ("stages", "s")
    reads = {"a": (*here, "command", 1), "b": (*here, "command", 2), "c": (*here, "inputs", "c")}
    assert hyperparameter_reads("s", stage, picked=False) == reads
    assert hyperparameter_reads("s", stage) == {**reads, "d": (*here, "inputs", "d")}


def test_every_text_of_a_stage_is_parsed_and_a_wrong_one_is_told_at_its_key() -> None:
    stage = workflow(
        {
            "s": {
                "command": "run ${{ a }}",
                "env": {"E": "${{ b }}", "F": "plain"},
                "files": {"f": "${{ c }}.in"},
                "inputs": {"x": {"from": "s.x", "at": {"r": "previous"}, "initially": ["${{ 1 + }}"]}},
                "outputs": {"o": {"glob": "${{ d }}*"}},
                "when": "e",
            }
        }
    ).stages["s"]
    found = dict(templates((), stage))
    wrong = found.pop(("inputs", "x", "initially", 0))
    assert isinstance(wrong, ExpressionError)
    names = {key: made.references for key, made in found.items() if not isinstance(made, ExpressionError)}
    assert names == {
        ("command",): {("a",)},
        ("env", "E"): {("b",)},
        ("files", "f"): {("c",)},
        ("outputs", "o"): {("d",)},
        ("when",): {("e",)},
    }
