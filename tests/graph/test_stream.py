"""Who reads a stream, and along which axes."""

from __future__ import annotations

from typing import Any

import pytest

from diel.graph.gang import stream_inputs
from tests.graph.building import built, flaws_of, workflow

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
