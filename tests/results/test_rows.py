"""Rows of results: one a task, with the point that it was at, joined with what other stages made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.observe.results import RunReader, make_table, summarize
from tests.handmade import Handmade

FLOW = """
axes:
  t: {linspace: [0, 1, 3]}
  d: {values: [x, y]}
  state: {zip: {p: [1, 2], q: [u, v]}}
  part: {from: sim.parts}
stages:
  sim: {over: [t], command: [x], outputs: {e: {value: float}, parts: {value: list}, log: log.txt}}
  fit: {over: [t, d], command: [x], outputs: {loss: {value: float}}}
  one: {command: [x], outputs: {total: {value: int}}}
  zipped: {over: [state], command: [x], outputs: {x: {value: int}}}
  ragged: {over: [t, part], command: [x], outputs: {n: {value: int}}}
  other: {over: [state, t], command: [x], outputs: {n: {value: int}}}
"""


def flow(tmp_path: Path, **more: object) -> Handmade:
    run = Handmade(tmp_path, FLOW)
    for name, total in (("sim", 3), ("fit", 6), ("one", 1), ("zipped", 2)):
        run.stage(name, total)
    return run


def read(run: Handmade) -> RunReader:
    return RunReader(run.paths)


def test_a_row_is_a_task_in_axis_order_with_its_point(tmp_path: Path) -> None:
    run = flow(tmp_path)
    for index in (2, 0, 1):
        run.done("sim", index, e=index * 10)
    found = make_table(read(run), ["sim.e"])
    assert found.columns == ("t", "sim.e")
    assert found.rows == [(0.0, 0), (0.5, 10), (1.0, 20)]
    assert not found.missing


def test_a_stage_alone_means_all_that_it_made_files_as_paths(tmp_path: Path) -> None:
    run = flow(tmp_path).done("sim", 0, {"log": "text"}, e=1.5)
    found = make_table(read(run), ["sim"])
    assert found.columns == ("t", "sim.e", "sim.log")
    (row,) = found.rows
    assert row[:2] == (0.0, 1.5)
    assert Path(row[2]).read_text() == "text"


def test_an_axis_of_several_parameters_gives_each_a_column(tmp_path: Path) -> None:
    run = flow(tmp_path).done("zipped", 1, x=7)
    found = make_table(read(run), ["zipped.q", "zipped.x"])
    assert found.columns == ("p", "q", "zipped.x"), "an axis parameter has its column already"
    assert found.rows == [(2, "v", 7)]


def test_stages_are_joined_along_the_axes_that_they_share(tmp_path: Path) -> None:
    run = flow(tmp_path).done("one", 0, total=3)
    for index in range(3):
        run.done("sim", index, e=index)
    for index in range(6):
        run.done("fit", index, loss=index / 10)
    found = make_table(read(run), ["sim.e", "fit.loss", "one"])
    assert found.columns == ("t", "d", "sim.e", "fit.loss", "one.total")
    assert found.rows[2:4] == [(0.5, "x", 1, 0.2, 3), (0.5, "y", 1, 0.3, 3)]


def test_stages_of_which_none_has_all_axes_are_not_joined(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"over state, t: neither has all|over t, d: neither has all"):
        make_table(read(flow(tmp_path)), ["fit", "other"])


def test_a_task_without_a_result_has_no_row_and_is_counted(tmp_path: Path) -> None:
    run = flow(tmp_path).done("sim", 0, e=1).failed("sim", 1).done("fit", 0, loss=1).done("fit", 2, loss=2)
    found = make_table(read(run), ["fit.loss", "sim.e"])
    assert found.rows == [(0.0, "x", 1, 1), (0.5, "x", 2, None)]
    assert found.missing["sim"] == "2 of 3 tasks of 'sim' have no result: 1 waiting, 1 failed"


def test_points_that_a_stage_made_are_joined_with_where_they_were_made(tmp_path: Path) -> None:
    run = flow(tmp_path)
    for index, parts in enumerate((["a"], [], ["b", "c"])):
        run.done("sim", index, parts=parts)
    run.paths.axes.mkdir()
    run.paths.axis("part").write_text('["part"]\n["a"]\n["b"]\n["c"]\n')
    run.stage("ragged", 3)
    for index in range(3):
        run.done("ragged", index, n=index)
    assert make_table(read(run), ["ragged.n"]).rows == [(0.0, "a", 0), (1.0, "b", 1), (1.0, "c", 2)]


def test_a_result_of_an_earlier_run_is_a_result(tmp_path: Path) -> None:
    first = flow(tmp_path).done("sim", 0, {"log": "text"}, e=1)
    run = Handmade(tmp_path, FLOW, "w-2").stage("sim", 3)
    (record,) = RunReader(first.paths).records("sim").values()
    run.write("cached", stage="sim", index=0, run="w-1", key="0" * 32, parts=["", ""], **record)
    found = make_table(read(run), ["sim"])
    assert found.rows[0][-1] == str(first.paths.task_dir("sim", 0, 1) / "log.txt")


def test_a_limit_gives_the_first_rows(tmp_path: Path) -> None:
    run = flow(tmp_path)
    for index in (2, 1, 0):
        run.done("sim", index, e=index)
    assert make_table(read(run), ["sim.e"], limit=2).rows == [(0.0, 0), (0.5, 1)]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("simm", "no stage 'simm'; did you mean 'sim'"),
        ("sim.ee", "'sim' made no 'ee'; did you mean 'e'"),
        ("sim.", "expected STAGE.VALUE"),
        ("fit.loss", r"'fit' has no results \(6 waiting\); `diel explain`"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_the_nearest(
    tmp_path: Path, wanted: str, message: str
) -> None:
    run = flow(tmp_path).done("sim", 0, e=1)
    with pytest.raises(UsageError, match=message):
        make_table(read(run), [wanted])


def test_the_summary_names_each_output_with_an_example(tmp_path: Path) -> None:
    run = flow(tmp_path).done("sim", 0, e=1).done("sim", 1, e=2).done("one", 0, total=3)
    assert summarize(read(run)).rows == [("sim.e", "t", "2 of 3", 1), ("one.total", "", "1 of 1", 3)]


def points(run: Handmade, wanted: list[str], **at: object) -> list[tuple[object, ...]]:
    return make_table(read(run), wanted, at=at or None).rows


JOINED = """
axes: {x: {values: [1, 2, 3]}, y: {values: [a, b]}}
stages:
  a: {over: [x], command: [x], outputs: {v: {value: int}}}
  b: {over: [x, y], command: [x], outputs: {v: {value: int}}}
  c: {over: [y, x], command: [x], outputs: {v: {value: int}}}
  none: {over: [x], command: [x], outputs: {v: {value: int}}}
"""


class TestOuterJoin:
    def made(self, tmp_path: Path) -> Handmade:
        run = Handmade(tmp_path, JOINED)
        for stage, total in (("a", 3), ("b", 6), ("c", 6), ("none", 3)):
            run.stage(stage, total)
        for index in (0, 2):
            run.done("a", index, v=10 * (index + 1))  # x = 1, 3
        run.done("b", 1, v=12).done("b", 2, v=21)  # (1, b), (2, a)
        return run.done("c", 1, v=201).done("c", 3, v=112)  # (a, 2), (b, 1)

    def test_each_point_of_any_stage_has_a_row_in_any_order(self, tmp_path: Path) -> None:
        run = self.made(tmp_path)
        rows = {(1, "b", 10, 12, 112), (2, "a", None, 21, 201), (3, None, 30, None, None)}
        assert set(points(run, ["a.v", "b.v", "c.v"])) == rows
        turned = {(y, x, c, b, a) for x, y, a, b, c in rows}
        assert set(points(run, ["c.v", "b.v", "a.v"])) == turned

    def test_a_stage_without_any_result_is_an_empty_column(self, tmp_path: Path) -> None:
        found = make_table(read(self.made(tmp_path)), ["none.v", "a.v"])
        assert found.rows == [(1, None, 10), (3, None, 30)]
        assert "'none'" in found.missing["none"]

    def test_a_point_that_one_of_them_alone_has_can_be_asked_for(self, tmp_path: Path) -> None:
        run = self.made(tmp_path)
        assert points(run, ["b.v", "a.v"], x=3) == [(3, None, None, 30)]
        assert points(run, ["b.v", "c.v"], x=2) == [(2, "a", 21, 201)]


class TestWhatAModelAnswered:
    def made(self, tmp_path: Path) -> Handmade:
        run = Handmade(tmp_path, JOINED).stage("a", 3)
        for index, used in enumerate((True, False)):
            told = {"asked": 0.1, "uncertainty": 0.2, "used": used}
            values = {"v": index, "simulated": not used}
            run.work("start", "a", index)
            record: dict[str, Any] = {"values": values, "artifacts": {}, "surrogate": told}
            run.work("done", "a", index, seconds=2.0, key=f"{index:032x}", parts=["p", "i"], **record)
        return run

    def test_is_marked_where_one_value_is_asked_for(self, tmp_path: Path) -> None:
        found = make_table(read(self.made(tmp_path)), ["a.v"])
        assert found.columns == ("x", "a.v", "a.simulated")
        assert found.rows == [(1, 0, False), (2, 1, True)]

    def test_is_counted_in_the_summary(self, tmp_path: Path) -> None:
        rows = summarize(read(self.made(tmp_path))).rows
        assert rows[0][:3] == ("a.v", "x", "2 of 3, 1 answered by a model")


def test_the_summary_counts_values_and_not_tasks(tmp_path: Path) -> None:
    run = Handmade(tmp_path, JOINED).stage("a", 3).done("a", 0, v=1).done("a", 1, w=2).done("a", 2, v=None)
    assert [row[:3] for row in summarize(read(run)).rows] == [("a.v", "x", "1 of 3"), ("a.w", "x", "1 of 3")]
