"""Inputs that are brought to a node's disk, and inputs that tasks share out."""

from __future__ import annotations

from pathlib import Path

from diel.artifacts import Artifact
from diel.staging.item import AT_NODE, Shard
from diel.tasks.recipe import copies, keyed
from tests.controller.bench import Bench


def test_artifacts_that_are_to_be_near_are_replaced_by_what_stands_for_their_copies() -> None:
    one, other = Artifact("/run/a.csv", "1", size=7), Artifact("/run/b.csv", "2")
    inputs = {"near": [one, [one, other]], "far": other, "n": 3}
    found, items = copies(inputs, {"near", "n"})
    assert [(item.source, item.key) for item in items] == [
        ("/run/a.csv", items[0].key),
        ("/run/b.csv", items[1].key),
    ], "each once"
    first, (again, second) = found["near"]
    assert first == again
    assert first.startswith(AT_NODE)
    assert (first.digest, first.bytes) == ("1", 7)
    assert second.endswith("b.csv")
    assert (found["far"], found["n"]) == (other, 3)


FLOW = """
axes: {a: {range: 2}, i: {range: 3}}
stages:
  up: {over: [a], command: [up], outputs: {x: {path: x}}}
  down: {over: [a, i], command: [down, "${{ inputs.x }}"], inputs: {x: {from: up.x, shard: {by: task, seed: 5}}}}
"""


def test_tasks_that_read_the_same_get_each_a_part_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FLOW)
    for index in range(2):
        bench.done("up", index, x=tmp_path / f"x{index}")
    parts = []
    for index in (0, 1, 2, 5, 3):
        shards = bench.resolve("down", index).shards
        assert shards is not None
        assert (shards["x"].by, shards["x"].seed, shards["x"].parts) == ("task", 5, 3)
        parts.append(shards["x"].part)
    assert parts == [0, 1, 2, 2, 0]
    assert len(set(bench.keys("down"))) == 6


def test_a_task_that_its_condition_leaves_out_has_no_part(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FLOW.replace("inputs: {x", "when: i != 1 or a == 1, inputs: {x"))
    for index in range(2):
        bench.done("up", index, x=tmp_path / f"x{index}")
    shards = {index: (bench.resolve("down", index).shards or {})["x"] for index in (0, 2, 3, 4, 5)}
    found = {index: (shard.part, shard.parts) for index, shard in shards.items()}
    assert found == {0: (0, 2), 2: (1, 2), 3: (0, 3), 4: (1, 3), 5: (2, 3)}


def test_another_part_or_order_is_another_task() -> None:
    shards = [Shard("task", 1, 0, 2), Shard("task", 1, 1, 2), Shard("task", 2, 0, 2), Shard("rank", 1)]
    texts = [keyed({"x": shard})["shard of x"] for shard in shards]
    assert texts[0] == "task 0 of 2, seed 1"
    assert len(set(texts)) == 4
