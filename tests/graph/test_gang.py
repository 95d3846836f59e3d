"""Which stages run at the same time, and which of them cannot."""

from __future__ import annotations

from typing import Any

import pytest

from diel.workflow.graph import gangs
from diel.workflow.graph.gang import stream_inputs
from tests.graph.building import AXES, built, flaws_of, workflow

STREAM = {"outputs": {"x": {"stream": True}}}


def test_stages_joined_by_streams_or_by_beside_are_one_gang_over_their_common_axes() -> None:
    graph = built(
        {
            "look": {"over": ["a"], "beside": ["use"]},
            "alone": {},
            "use": {"over": ["a", "b"], "inputs": {"x": "make.x"}},
            "make": {"over": ["b", "a"], **STREAM},
        }
    )
    (gang,) = gangs(graph)
    assert set(gang.stages) == {"make", "use", "look"}
    assert gang.stages == tuple(name for name in graph.order if name != "alone")
    assert gang.axes == ("a",)
    assert gang.name == "+".join(gang.stages)


def test_only_stages_that_put_and_read_nothing_may_come_in_waves() -> None:
    middle = {"inputs": {"x": "make.x"}, "outputs": {"y": {"stream": True}}}
    (gang,) = gangs(built({"make": STREAM, "between": middle, "end": {"inputs": {"y": "between.y"}}}))
    assert gang.in_waves == {"make"}
    (gang,) = gangs(built({"make": {**STREAM, "beside": ["end"]}, "end": {"inputs": {"x": "make.x"}}}))
    assert gang.in_waves == frozenset()


def test_two_pairs_of_stages_are_two_gangs() -> None:
    graph = built({"a1": {"beside": ["a2"]}, "a2": {}, "b1": {}, "b2": {"beside": ["b1"]}}, {})
    assert [set(gang.stages) for gang in gangs(graph)] == [{"a1", "a2"}, {"b1", "b2"}]
    assert gangs(built({"one": {}, "two": {"after": ["one"]}})) == ()


def test_stages_of_a_gang_cannot_wait_for_each_other_not_even_by_way_of_another() -> None:
    stages: dict[str, Any] = {"one": {"beside": ["two"]}, "between": {"after": ["one"]}, "two": {}}
    assert flaws_of(stages) == []
    stages["two"] = {"after": ["between"]}
    (flaw,) = flaws_of(stages)
    assert flaw.message == (
        "'two' runs at the same time as 'one', and waits for its end, by way of 'between'"
    )
    assert flaw.key == ("stages", "two", "after", 0)


def test_rounds_are_never_all_there_beside_a_stage_without_the_loop() -> None:
    axes = {**AXES, "r": {"loop": {"max": 3}}}
    assert flaws_of({"one": {"over": ["r"], "beside": ["two"]}, "two": {"over": ["r"]}}, axes) == []
    (flaw,) = flaws_of({"one": {"over": ["a", "r"], "beside": ["two"]}, "two": {"over": ["a"]}}, axes)
    assert "which has no axis 'r'" in flaw.message
    assert flaw.key == ("stages", "one", "over", 1)


MAKE = {"over": ["a"], "outputs": {"x": {"stream": True}, "n": {"value": "int"}}}


def test_an_input_of_a_stream_is_an_edge_that_waits_for_no_end() -> None:
    stages = {"make": MAKE, "use": {"over": ["a"], "inputs": {"x": "make.x", "n": "hp.n"}}}
    registry = {"n": {"type": "int", "default": 1}}
    (edge,) = built(stages, hyperparameters=registry).edges
    assert (edge.stream, edge.share, edge.matched) == (True, False, ("a",))
    assert stream_inputs(workflow(stages, hyperparameters=registry), "use") == {"x"}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ({"command": ["x", "${{ make.x }}"]}, "make.x is a stream, not a value"),
        (
            {"inputs": {"x": {"from": "make.x", "at": {"a": 1}}}},
            "make.x is a stream, of which no part can be picked",
        ),
        ({"inputs": {"n": {"from": "make.n", "share": True}}}, "`share` is for streams, and make.n is none"),
        ({}, "no stage reads this stream"),
    ],
)
def test_a_stream_is_read_whole_and_as_an_input(use: dict[str, Any], message: str) -> None:
    assert message in [flaw.message for flaw in flaws_of({"make": MAKE, "use": use})]


def test_all_readers_of_a_stream_read_it_along_the_same_axes() -> None:
    reader = {"inputs": {"x": "make.x"}}
    assert flaws_of({"make": MAKE, "one": reader, "two": reader}) == []
    (flaw,) = flaws_of({"make": MAKE, "one": reader, "two": {**reader, "over": ["a"]}})
    assert flaw.message == "'one' reads this stream along no axis, 'two' does not"
