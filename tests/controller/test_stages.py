"""Stages open when their axes are known, and hear of the ends that they wait for."""

from __future__ import annotations

from pathlib import Path

from diel.tasks.stage_run import StageRun
from tests.controller.bench import Bench

DERIVED = """
axes: {a: {range: 2}, part: {from: split.parts}}
stages:
  split: {SPLIT command: [./split], outputs: {parts: {value: list}}}
  each: {over: [OVER part], command: [./each, "${{ part }}"]}
  after: {after: [each], command: [./after]}
"""
ONCE = DERIVED.replace("SPLIT ", "").replace("OVER ", "")
ALONG = DERIVED.replace("SPLIT", "over: [a],").replace("OVER", "a,")


def test_a_stage_opens_when_the_task_that_makes_its_axis_is_done(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ONCE)
    each = bench.stages.runs["each"]
    assert not each.known
    bench.done("split", parts=["x", "y"])
    assert [bench.resolve("each", index).command for index in range(each.size)] == [
        ("./each", "x"),
        ("./each", "y"),
    ]
    bench.resumed()
    assert bench.stages.runs["each"].size == 2
    assert not bench.stages.complete


def test_a_stage_whose_axis_cannot_be_made_is_void_and_says_why(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ONCE)
    bench.fail("split")
    assert bench.stages.runs["each"].void
    assert bench.ledger.history.stages["each"].void == "'split' did not make the axis 'part'"
    assert list(bench.stages.runs["after"].candidates(0.0)) == [0], "it looks, and is skipped"


def test_points_that_make_no_sense_are_told_where_the_stage_stands(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ONCE)
    bench.done("split", parts=[{"x": 1}, 2])
    assert bench.stages.runs["each"].void
    assert "part" in (bench.ledger.history.stages["each"].void or "")


def test_what_failed_before_an_axis_was_made_stays_failed_in_this_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ALONG)
    bench.fail("split", 0)
    bench.done("split", 1, parts=[7])
    assert bench.resolve("each", 0).command == ("./each", "7")
    bench.resumed()
    assert bench.stages.runs["split"].history.state(0).label == "failed"
    assert "it had failed when an axis was made" in bench.ledger.history.failures["split", 0]["message"]


def test_each_end_is_told_once_and_those_that_wait_are_looked_at(tmp_path: Path) -> None:
    text = """
    axes: {a: {range: 3}}
    stages:
      up: {over: [a], command: [./up], outputs: {x: {value: int}}}
      down: {over: [a], command: [./down, "${{ up.x }}"]}
    """
    bench = Bench(tmp_path, text)
    down = bench.stages.runs["down"]
    list(down.candidates(0.0))
    told: list[tuple[str, int]] = []

    def tell(stage: StageRun, index: int) -> None:
        told.append((stage.name, index))

    bench.stages.watch_ends(tell)
    bench.done("up", 2, x=1)
    bench.fail("up", 0)
    assert told == [("up", 2), ("up", 0)]
    assert list(down.candidates(0.0)) == [2, 0]


def test_later_stages_go_first_and_services_before_them(tmp_path: Path) -> None:
    text = """
    stages:
      first: {command: [x]}
      second: {after: [first], command: [x]}
      serve: {command: [serve], service: {ready: {http: /}}}
      ask: {services: [serve], command: [x]}
    """
    names = [stage.name for stage in Bench(tmp_path, text).stages.deepest_first]
    assert names[0] == "serve"
    assert names.index("second") < names.index("first")


def test_what_an_earlier_controller_finished_is_counted_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "stages: {one: {command: [x]}, two: {after: [one], command: [x]}}")
    bench.done("one")
    bench.resumed()
    assert (bench.stages.runs["one"].ended, bench.stages.runs["two"].ended) == (1, 0)
    bench.done("two")
    assert bench.stages.complete
