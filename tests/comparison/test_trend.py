"""The runs of a workflow by date."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.base.values import sparkline
from diel.observe.comparison.trend import Measure, read_trend, trend_document, trend_lines, trend_table
from diel.ui.page.comparison import trend_page
from tests.comparison.test_comparison import sweep
from tests.handmade import Handmade


def test_each_run_has_the_time_of_its_median_task_and_its_results_by_point(tmp_path: Path) -> None:
    for number, factor in enumerate((1.0, 2.0), 1):
        sweep(tmp_path, f"w-{number}", range(3), factor).end("succeeded")
    sweep(tmp_path, "other-1", range(3))
    trend = read_trend(tmp_path / "runs", "w")
    assert [(one.run, one.state, one.tasks["done"]) for one in trend.runs] == [
        ("w-1", "succeeded", 3),
        ("w-2", "succeeded", 3),
    ]
    times, results = trend.measures[0], trend.measures[1:]
    assert times.name == "sim time"
    assert times.change == pytest.approx(1, rel=0.01)
    assert [one.name for one in results] == [f"sim.e (x={x})" for x in range(3)]
    assert list(results[2].values) == [2, 4]
    assert trend_table(trend).columns[-1] == "sim.e (x=2)"


def test_of_many_points_the_median_is_followed(tmp_path: Path) -> None:
    sweep(tmp_path, "w-1", range(15))
    (result,) = read_trend(tmp_path / "runs", "w", ["sim.e"]).measures
    assert (result.name, result.values) == ("sim.e", (7,))


def test_a_last_value_beyond_the_scatter_of_those_before_is_told() -> None:
    steady = (1.0, 1.02, 0.98, 1.01, 0.99)
    assert not Measure("t", (*steady, 1.03)).is_beyond
    assert Measure("t", (*steady, 1.3)).is_beyond
    assert not Measure("t", (*steady[:4], 1.3)).is_beyond
    assert Measure("t", (2.0, 2.0, None, 2.0, 2.0, 2.0, 2.1)).is_beyond
    assert not Measure("t", (2.0,) * 9).is_beyond
    assert Measure("t", (None,)).change is None


def test_the_change_is_from_the_median_that_is_shown(tmp_path: Path) -> None:
    for number, factor in enumerate((1.0, 2.0, 3.0), 1):
        sweep(tmp_path, f"w-{number}", range(1, 2), factor).end("succeeded")
    line = next(one for one in trend_lines(read_trend(tmp_path / "runs", "w")) if "sim.e" in one)
    assert line.split()[2:5] == ["1.5", "3", "+100.00%"]


def test_what_the_cache_gave_counts_where_it_was_computed(tmp_path: Path) -> None:
    sweep(tmp_path, "w-1", range(1)).end("succeeded")
    other = Handmade(tmp_path, "stages: {sim: {command: [x]}}", "w-2").stage("sim", 1)
    other.write(
        "cached", stage="sim", index=0, run="w-1", values={"e": 1.0}, artifacts={}, seconds=2.0, key="0" * 32
    )
    assert {one.name: one.values[1] for one in read_trend(tmp_path / "runs", "w").measures}[
        "sim time"
    ] is None


def test_what_cannot_be_read_of_a_run_is_left_out_and_said(tmp_path: Path) -> None:
    sweep(tmp_path, "w-1", range(1))
    sweep(tmp_path, "w-2", range(1)).write("stage", stage=3)
    trend = read_trend(tmp_path / "runs", "w")
    assert [one.run for one in trend.runs] == ["w-1", "w-2"]
    (note,) = trend.notes
    assert "w-2 is without a damaged record" in note


def test_what_no_run_has_is_refused(tmp_path: Path) -> None:
    sweep(tmp_path, "melt-1", range(1))
    with pytest.raises(UsageError, match="no runs of 'melf' in .*did you mean 'melt'"):
        read_trend(tmp_path / "runs", "melf")
    with pytest.raises(UsageError, match="no figures of train"):
        read_trend(tmp_path / "runs", "melt", ["train"])
    with pytest.raises(UsageError, match=r"no stage of the runs of 'melt' is one of bench\.gemm, .*--bench"):
        read_trend(tmp_path / "runs", "melt", bench=True)


def test_only_what_measures_the_machine_is_shown_of_a_bench_each_for_itself(tmp_path: Path) -> None:
    text = "stages: {k: {module: bench.gemm}, io: {module: bench.files}, sim: {command: [x]}}"
    run = Handmade(tmp_path, text, "w-1").stage("k", 1).stage("io", 1).stage("sim", 1)
    run.done("k", 0, gflops=3.0).done("io", 0, write_mbs=100.0).done("sim", 0, e=1.0)
    trend = read_trend(tmp_path / "runs", "w", bench=True)
    assert [(one.group, one.name) for one in trend.measures] == [
        ("kernel", "k.gflops"),
        ("I/O", "io.write_mbs"),
    ]


def test_a_line_of_bars_goes_from_the_least_to_the_most() -> None:
    assert sparkline([1, 2, None, 8]) == "▁▂·█"
    assert sparkline([3, 3]) == "▄▄"
    assert sparkline([None]) == "·"


def diverging(folder: Path, number: int, *values: object) -> Handmade:
    run = Handmade(folder, "axes: {x: {range: 3}}\nstages: {a: {over: [x], command: [x]}}", f"w-{number}")
    run.stage("a", 3)
    for index, value in enumerate(values):
        run.work("start", "a", index)
        run.work(
            "done", "a", index, seconds=1.0, key="0" * 32, parts=["p", "i"], values={"v": value}, artifacts={}
        )
    return run


def test_numbers_that_are_not_finite_and_large_whole_ones_are_followed(tmp_path: Path) -> None:
    diverging(tmp_path, 1, 2**60, 1.0, math.inf)
    diverging(tmp_path, 2, 2**60 + 1, math.inf, math.nan)
    trend = read_trend(tmp_path / "runs", "w", ["a.v"])
    large, infinite, bad = trend.measures
    assert [*large.values] == [2**60, 2**60 + 1]
    assert trend_table(trend).rows[1][-3] == 2**60 + 1
    assert (infinite.values, infinite.numbers[-1]) == ((1.0, math.inf), math.inf)
    assert bad.values[0] == math.inf
    documents = trend_document(trend)["measures"].values()
    assert [one["values"][1] for one in documents] == [2**60 + 1, "Infinity", "NaN"]
    json.dumps(trend_document(trend), allow_nan=False)
    lines = [line.split() for line in trend_lines(trend)]
    assert [line[2:5] for line in lines if line[:2] == ["a.v", "(x=1)"]] == [["1", "inf", "+inf"]]
    assert sparkline([1.0, math.inf, None, 2.0]) == "▁×·█"
    assert "a.v (x=2)" in trend_page(trend)


def test_a_last_value_that_is_not_finite_is_beyond_the_scatter() -> None:
    steady = (1.0, 1.02, math.inf, 0.98, 1.01, 0.99)
    assert Measure("t", (*steady, math.nan)).is_beyond
    assert Measure("t", (*steady, math.inf)).is_beyond
    assert not Measure("t", (*steady, 1.0)).is_beyond
