"""The stage graph of a workflow: along which axes data moves, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.workflow.graph import Edge
from tests.graph.building import built, flaws_of


def edge_between(up: list[str], down: list[str], at: dict[str, Any] | None = None) -> Edge:
    graph = built(
        {
            "up": {"over": up, "outputs": {"x": {"value": "int"}}},
            "down": {"over": down, "inputs": {"x": {"from": "up.x", "at": at or {}}}},
        }
    )
    (edge,) = graph.edges
    return edge


@pytest.mark.parametrize(
    ("up", "down", "at", "matched", "gathered"),
    [
        (["a"], ["a"], {}, ("a",), ()),
        (["a"], [], {}, (), ("a",)),
        ([], ["a"], {}, (), ()),
        (["a", "b"], ["b", "c"], {}, ("b",), ("a",)),
        (["b", "a"], ["a", "b"], {}, ("b", "a"), ()),
        (["a", "b"], [], {"a": 2}, (), ("b",)),
        (["a", "b"], ["a", "b"], {"a": 2}, ("b",), ()),
        (["a", "b"], ["c"], {"a": 1, "b": 2}, (), ()),
    ],
)
def test_shared_axes_are_matched_and_those_of_the_upstream_alone_are_gathered_unless_picked(
    up: list[str], down: list[str], at: dict[str, Any], matched: tuple[str, ...], gathered: tuple[str, ...]
) -> None:
    edge = edge_between(up, down, at)
    assert (edge.matched, edge.gathered, edge.picked) == (matched, gathered, at)
    assert (edge.upstream, edge.downstream, edge.output, edge.name) == ("up", "down", "x", "x")
    assert edge.key == ("stages", "down", "inputs", "x")


@given(st.lists(st.sampled_from("abc"), unique=True), st.lists(st.sampled_from("abc"), unique=True))
def test_every_upstream_axis_is_either_matched_or_gathered(up: list[str], down: list[str]) -> None:
    edge = edge_between(up, down)
    assert sorted(edge.matched + edge.gathered) == sorted(up)
    assert set(edge.matched) == set(up) & set(down)


def test_a_stage_that_reads_itself_is_refused_by_name() -> None:
    (flaw,) = flaws_of({"s": {"inputs": {"x": "s.x"}}})
    assert flaw.key == ("stages", "s", "inputs", "x")
    assert "s -> s" in flaw.message


def test_a_cycle_is_named_in_the_order_in_which_it_turns_from_the_first_stage_of_the_file() -> None:
    stages = {
        "free": {},
        "two": {"after": ["one"]},
        "one": {"after": ["three", "free"]},
        "three": {"after": ["two"]},
    }
    (flaw,) = flaws_of(stages)
    assert flaw.message.endswith(": two -> three -> one -> two")
    assert flaw.key == ("stages", "two", "after", 0)


@pytest.mark.parametrize(
    ("stages", "key", "message", "hint"),
    [
        (
            {"simulate": {}, "s": {"inputs": {"x": "simulat.x"}}},
            ("stages", "s", "inputs", "x"),
            "no stage 'simulat'",
            "did you mean 'simulate'?",
        ),
        ({"s": {"over": ["zz"]}}, ("stages", "s", "over", 0), "no axis 'zz'", "axes: a, b, c"),
        (
            {"s": {"inputs": {"x": "energy"}}},
            ("stages", "s", "inputs", "x"),
            "expected STAGE.OUTPUT, found 'energy'",
            "",
        ),
        ({"s": {"inputs": {"x": "hp.h"}}}, ("stages", "s", "inputs", "x"), "no hyperparameter 'h'", ""),
        (
            {"u": {"over": ["a"]}, "s": {"inputs": {"x": {"from": "u.x", "at": {"b": 1}}}}},
            ("stages", "s", "inputs", "x", "at", "b"),
            "'u' does not run over an axis 'b'",
            "its axes: a",
        ),
        (
            {
                "u": {"over": ["a"]},
                "s": {"over": ["a"], "inputs": {"x": {"from": "u.x", "min_success": 0.5}}},
            },
            ("stages", "s", "inputs", "x", "min_success"),
            "nothing is gathered here",
            "",
        ),
    ],
)
def test_a_reference_to_nothing_is_told_at_its_key(
    stages: dict[str, Any], key: tuple[str | int, ...], message: str, hint: str
) -> None:
    (flaw,) = flaws_of(stages)
    assert flaw.key == key
    assert flaw.message.startswith(message)
    assert hint in flaw.hint


def test_two_axes_that_give_the_same_parameter_are_refused_only_where_they_meet() -> None:
    axes = {"p": {"zip": {"x": [1], "y": [2]}}, "q": {"zip": {"x": [1], "z": [2]}}}
    assert flaws_of({"one": {"over": ["p"]}, "two": {"over": ["q"]}}, axes) == []
    (flaw,) = flaws_of({"both": {"over": ["p", "q"]}}, axes)
    assert flaw.message == "axes 'p' and 'q' both give the parameter 'x'"
    assert flaw.key == ("stages", "both", "over", 1)


def test_previous_needs_a_first_value() -> None:
    stages = {"s": {"over": ["r"], "inputs": {"x": {"from": "s.x", "at": {"r": "previous"}}}}}
    (flaw,) = flaws_of(stages, {"r": {"loop": {"max": 2}}})
    assert "initially" in flaw.message
