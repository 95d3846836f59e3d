"""What the expressions of a task may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.tasks.results import MissingInput
from diel.tasks.sources import Scope
from tests.controller.bench import Bench

FLOW = """
hyperparameters: {rate: {type: float, default: 0.5}}
axes: {a: {values: [10, 20]}, pair: {zip: {x: [1, 2], y: [3, 4]}}}
stages:
  up: {over: [a], command: [up], outputs: {v: {value: int}, w: {value: int}}}
  down:
    over: [a, pair]
    command: [down, "${{ up.v }}"]
    params: {n: "${{ a + 1 }}"}
    inputs: {v: up.v, rate: hp.rate}
    outputs: {out: "at-${{ a }}.txt"}
  apart: {command: [apart]}
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path, FLOW)
    for index in range(2):
        made.done("up", index, v=index, w=7)
    return made


def scope(bench: Bench, stage: str, index: int = 0) -> Scope:
    return Scope(bench.stages.recipes[stage].sources, index)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a", 20),
        ("y", 4),
        ("pair.x", 2),
        ("hp.rate", 0.5),
        ("params.n", 21),
        ("inputs.v", 1),
        ("inputs.rate", 0.5),
        ("outputs.out", "at-20.txt"),
        ("up.v", 1),
        ("task.id", "down/3"),
        ("task.attempt", 1),
        ("run.id", "w-1"),
    ],
)
def test_each_name_has_the_value_of_its_task(bench: Bench, name: str, value: Any) -> None:
    assert scope(bench, "down", 3).read(tuple(name.split("."))) == value


def test_its_names_are_those_that_it_lists(bench: Bench) -> None:
    found = scope(bench, "down")
    assert {"a", "x", "y", "hp", "inputs", "up"} <= set(found)
    assert len(found) == len(list(found))
    with pytest.raises(KeyError):
        found["apart"]


def test_an_output_that_was_not_made_is_told_with_those_that_were(bench: Bench) -> None:
    bench.done("up", 0, w=7)
    with pytest.raises(MissingInput, match=r"up/0 \(a=10\) made no 'v'; it made: w"):
        scope(bench, "down")["inputs"]


def test_inputs_that_are_given_stand_in_for_what_the_task_reads(bench: Bench) -> None:
    sources = bench.stages.recipes["down"].sources
    assert Scope(sources, 0, {"v": "another"}).read(("inputs", "v")) == "another"


def test_the_next_attempt_knows_its_number(bench: Bench) -> None:
    bench.stages.runs["down"].history.attempts[0] = 2
    assert scope(bench, "down")["task"]["attempt"] == 3


def test_one_text_that_gathers_an_output_of_the_same_name_from_two_stages_gets_each_its_own(
    tmp_path: Path,
) -> None:
    flow = """
axes: {a: {range: 2}}
stages:
  one: {over: [a], command: [one], outputs: {v: {value: int}}}
  two: {over: [a], command: [two], outputs: {v: {value: int}}}
  down: {command: "echo ${{ one.v }} ${{ two.v }}"}
"""
    bench = Bench(tmp_path, flow)
    for index in range(2):
        bench.done("one", index, v=index)
        bench.done("two", index, v=10 + index)
    found = scope(bench, "down")
    assert [list(found.read((stage, "v"))) for stage in ("one", "two", "one")] == [[0, 1], [10, 11], [0, 1]]
