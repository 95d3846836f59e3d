"""The drawing of the graph: states of stages, and kinds of lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.page import graph
from diel.page.graph import Spot, lay_out
from diel.page.panel import Grid, Sketch, Text
from diel.page.run_view import RunView
from tests.handmade import Handmade

TEXT = """
axes: {n: {range: 2}}
stages:
  a: {command: [x], over: [n], outputs: {v: {value: float}}}
  b: {command: "x ${{ a.v }}", over: [n], outputs: {v: {value: float}}}
  c: {command: "x ${{ mean(b.v) }}", outputs: {v: {value: float}}}
  d: {command: "x ${{ c.v }}", over: [n]}
  e: {command: x, after: [d]}
  reader: {command: x, inputs: {i: told.out}}
  told: {command: x, outputs: {out: {stream: true}}}
"""


def test_a_line_has_the_kind_of_its_edge_and_a_stage_the_state_of_its_tasks(tmp_path: Path) -> None:
    run = Handmade(tmp_path, TEXT).stage("a", 2).done("a", 0).failed("a", 1).end("failed")
    (sketch,) = graph.parts(RunView(run.paths))
    assert isinstance(sketch, Sketch)
    kinds = {(row[0], row[1]): row[3] for row in sketch.table.rows}
    assert kinds[("a", "b")] == "match"
    assert kinds[("b", "c")] == "gather"
    assert kinds[("c", "d")] == "broadcast"
    assert kinds[("d", "e")] == "order"
    assert kinds[("told", "reader")] == "stream"
    assert '<g class="node s-failed"><title>a: failed, 1 of 2 tasks' in sketch.svg
    assert '<title>b reads a: match</title><path class="match"' in sketch.svg
    assert 'role="img"' in sketch.svg


def test_a_stage_of_which_some_tasks_were_cancelled_is_not_told_as_done(tmp_path: Path) -> None:
    run = Handmade(tmp_path, TEXT).stage("a", 2).done("a", 0)
    run.write("cancelled", stage="a", tasks=[[1, 1]]).end("cancelled")
    (sketch,) = graph.parts(RunView(run.paths))
    assert isinstance(sketch, Sketch)
    assert "<title>a: cancelled, 1 of 2 tasks" in sketch.svg


def test_a_stage_of_which_a_failure_hindered_some_tasks_is_not_told_as_done(tmp_path: Path) -> None:
    run = Handmade(tmp_path, TEXT).stage("a", 2).stage("b", 2).done("a", 0).failed("a", 1).done("b", 0)
    run.skipped("b", 1, reason="upstream").end("failed")
    (sketch,) = graph.parts(RunView(run.paths))
    assert isinstance(sketch, Sketch)
    assert "<title>b: skipped, 1 of 2 tasks" in sketch.svg


def test_a_stage_of_which_some_tasks_should_not_run_is_done(tmp_path: Path) -> None:
    run = Handmade(tmp_path, TEXT).stage("a", 2).done("a", 0).skipped("a", 1, reason="when").end("succeeded")
    (sketch,) = graph.parts(RunView(run.paths))
    assert isinstance(sketch, Sketch)
    assert "<title>a: done, 1 of 2 tasks" in sketch.svg


def test_a_graph_too_large_to_draw_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "LINES", 3)
    note, table = graph.parts(RunView(Handmade(tmp_path, TEXT).paths))
    assert note == Text(
        "7 stages with 5 lines between them are too many to draw: `diel graph` prints them.", "note"
    )
    assert isinstance(table, Grid)
    assert (len(table.rows), table.more) == (3, 2)


def test_stages_stand_by_their_depth_and_edges_pass_between() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c")]
    found = lay_out({"a": 0, "b": 1, "c": 2}, edges)
    assert [found.stages[name].layer for name in "abc"] == [0, 1, 2]
    assert [place.layer for place in found.edges[("a", "c")]] == [0, 1, 2]
    assert found.edges[("a", "c")][1].row != found.stages["b"].row
    assert (found.layers, found.rows) == (3, 2.0)


def test_neighbours_are_put_beside_each_other_so_that_lines_do_not_cross() -> None:
    found = lay_out({"a": 0, "b": 0, "x": 1, "y": 1}, [("a", "y"), ("b", "x")])
    rows = {name: place.row for name, place in found.stages.items()}
    assert (rows["a"] < rows["b"]) == (rows["y"] < rows["x"])


def test_no_stage_and_one_stage_have_a_layout_too() -> None:
    assert lay_out({}, []).layers == 0
    assert lay_out({"a": 0}, []).stages == {"a": Spot(0, 0)}
