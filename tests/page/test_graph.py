"""The drawing of the graph: states of stages, and kinds of lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.ui.page import head, timeline
from diel.ui.page.head import Spot, lay_out
from diel.ui.page.panel import Bar, Facts, Grid, RunView, Sketch, Text
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
    (sketch,) = head.drawn_graph(RunView(run.paths))
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
    (sketch,) = head.drawn_graph(RunView(run.paths))
    assert isinstance(sketch, Sketch)
    assert "<title>a: cancelled, 1 of 2 tasks" in sketch.svg


def test_a_stage_of_which_a_failure_hindered_some_tasks_is_not_told_as_done(tmp_path: Path) -> None:
    run = Handmade(tmp_path, TEXT).stage("a", 2).stage("b", 2).done("a", 0).failed("a", 1).done("b", 0)
    run.skipped("b", 1, reason="upstream").end("failed")
    (sketch,) = head.drawn_graph(RunView(run.paths))
    assert isinstance(sketch, Sketch)
    assert "<title>b: skipped, 1 of 2 tasks" in sketch.svg


def test_a_stage_of_which_some_tasks_should_not_run_is_done(tmp_path: Path) -> None:
    run = Handmade(tmp_path, TEXT).stage("a", 2).done("a", 0).skipped("a", 1, reason="when").end("succeeded")
    (sketch,) = head.drawn_graph(RunView(run.paths))
    assert isinstance(sketch, Sketch)
    assert "<title>a: done, 1 of 2 tasks" in sketch.svg


def test_a_graph_too_large_to_draw_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "LINES", 3)
    note, table = head.drawn_graph(RunView(Handmade(tmp_path, TEXT).paths))
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


TABLE = "stages:\n  a: {command: [x], resources: {ranks: 2, memory: 1GiB}}\n"
SITE = '{"name": "s", "scheduler": "local", "pools": {"local": {"cores": 4}}}'
USED = {"cpu_seconds": 3.0, "system_seconds": 0.5, "memory_bytes": 2**28, "read_bytes": 0, "written_bytes": 0}


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    made = Handmade(tmp_path, TABLE)
    made.paths.site.write_text(SITE, "utf-8")
    return made.stage("a", 2, module="m")


def test_what_was_used_stands_beside_what_was_asked_with_advice(run: Handmade) -> None:
    for index in range(2):
        run.work("done", "a", index, seconds=2.0, key="k", parts=["p", "i"], usage=USED)
    table, advice = list(head.stages(RunView(run.end("succeeded").paths)))
    assert isinstance(table, Grid)
    assert isinstance(advice, Grid)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["cores in use"] == Bar([("running", 0.75)], "1.5 of 2 (75%)")
    assert row["most memory"] == Bar([("running", 0.25)], "256.0 MiB of 1.0 GiB")
    assert any("memory" in str(line[1]) for line in advice.rows)


def test_what_was_not_measured_is_said_and_has_no_columns(run: Handmade) -> None:
    table, note = list(head.stages(RunView(run.done("a", 0).end("failed").paths)))
    assert isinstance(table, Grid)
    assert "most memory" not in table.columns
    assert note == Text("What its tasks used of processors and memory was not measured.", "note")


def test_a_stage_that_has_no_tasks_is_not_called_done_nor_waiting(tmp_path: Path) -> None:
    text = "axes: {c: {from: a.rows}}\nstages:\n  a: {command: [x], outputs: {rows: {value: list}}}\n"
    run = (
        Handmade(tmp_path, text + "  b: {command: [x], over: [c]}\n").stage("a", 1).stage("b", 0, module="m")
    )
    seen = RunView(run.done("a", 0, rows=[]).end("succeeded").paths)
    table = next(head.stages(seen))
    assert isinstance(table, Grid)
    assert [row[table.columns.index("state")] for row in table.rows] == ["done", "no tasks"]
    (sketch,) = head.drawn_graph(seen)
    assert "<title>b: skipped, 0 tasks with a result" in str(sketch)


def test_tasks_that_were_skipped_are_not_called_done(tmp_path: Path) -> None:
    run = Handmade(tmp_path, "axes: {n: {range: 3}}\nstages:\n  a: {over: [n], when: n > 1, command: [x]}\n")
    run.stage("a", 3).done("a", 2).write("skipped", stage="a", tasks=[[0, 2]], reason="when")
    told = " ".join(
        part.text for part in head.parts(RunView(run.end("succeeded").paths)) if isinstance(part, Text)
    )
    assert "All is done; 2 tasks skipped." in told


def test_head_and_stages_say_how_many_failures_are_tolerated(tmp_path: Path) -> None:
    run = Handmade(
        tmp_path, "axes: {n: {range: 3}}\nstages:\n  a: {over: [n], command: [x]}\n  b: {command: [x]}\n"
    )
    run.stage("a", 3).stage("b", 1).done("a", 0).failed("a", 1).failed("a", 2).failed("b", 0)
    run.write("tolerated", stage="a", tasks=[[1, 2]], cause="search 'n'").end("failed")
    figures, said, *_ = head.parts(RunView(run.paths))
    assert isinstance(figures, Facts)
    assert dict(figures.facts)["failed"] == "3, 2 of them tolerated"
    assert said == Text("3 tasks failed, 2 of them tolerated.", "bad")
    table = next(head.stages(RunView(run.paths)))
    assert isinstance(table, Grid)
    assert [row[table.columns.index("state")] for row in table.rows] == ["2 failed, tolerated", "1 failed"]


def test_cores_that_an_expression_says_are_those_that_each_task_had(tmp_path: Path) -> None:
    text = "axes: {n: {values: [1, 3]}}\nstages:\n  a: {over: [n], command: [x], resources: {ranks: '${{ n }}'}}\n"
    run = Handmade(tmp_path, text)
    run.paths.site.write_text(SITE, "utf-8")
    run.stage("a", 2, module="m")
    for index, ranks in enumerate((1, 3)):
        used = {**USED, "cpu_seconds": 2.0 * ranks}
        run.write("queued", stage="a", tasks=[index], bundle=index + 1, asked={"ranks": ranks})
        run.work("done", "a", index, seconds=2.0, key="k", parts=["p", "i"], usage=used)
    seen = RunView(run.end("succeeded").paths)
    table = next(head.stages(seen))
    assert isinstance(table, Grid)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["cores"] == "1 to 3"
    assert row["cores in use"] == Bar([("running", 1.0)], "2 of 2 (100%)")
    facts = dict(next(part for part in timeline.cores(seen) if isinstance(part, Facts)).facts)
    assert facts["core-hours of tasks"] == f"{(2 * 1 + 2 * 3) / 3600:.3g}"
