"""Two runs beside each other: matched by points, their times tested, what could not be read said."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from diel.observe.comparison.comparison import RunDiff, compare, comparison_document, comparison_lines
from diel.observe.results import RunReader
from tests.handmade import Handmade

SWEEP = """
axes: {x: {values: [X]}}
stages: {sim: {over: [x], command: [x], outputs: {e: {value: float}, log: log.txt}}}
"""


def sweep(
    folder: Path, name: str, points: range, factor: float = 1.0, seed: int = 1, **more: Any
) -> Handmade:
    """A run whose tasks take 1 s to 100 s times a factor, with a scatter of 5 %."""
    draw = random.Random(seed)
    text = SWEEP.replace("X", ", ".join(map(str, points)))
    run = Handmade(folder, text, name, **more).stage("sim", len(points))
    for index, point in enumerate(points):
        seconds = 10 ** (point % 3) * factor * draw.uniform(0.95, 1.05)
        run.work("start", "sim", index)
        made: dict[str, Any] = {"values": {"e": point * factor}, "artifacts": {}}
        run.work("done", "sim", index, seconds=seconds, key=f"{index:032x}", parts=["p", "i"], **made)
    return run


def compared(first: Handmade, second: Handmade) -> RunDiff:
    return compare(RunReader(first.paths), RunReader(second.paths))


def test_tasks_at_the_same_points_are_compared_in_pairs_wherever_they_stand(tmp_path: Path) -> None:
    one = sweep(tmp_path, "w-1", range(12))
    other = sweep(tmp_path, "w-2", range(2, 16), 1.3, seed=2)
    (times,) = compared(one, other).times
    assert times.matched == 10
    assert times.verdict == "slower"
    assert times.ratio == pytest.approx(1.3, rel=0.05)
    assert times.interval is not None
    assert times.interval[0] > 1.2
    (result,) = compared(one, other).results
    assert (result.matched, result.differ) == (10, 10)
    assert result.largest == pytest.approx((11 * 0.3, "x=11"))


def test_tasks_meet_by_point_whatever_the_order_of_their_axes(tmp_path: Path) -> None:
    runs = []
    for name, over, values in (("w-1", "x, s", [0, 1, 2, 3]), ("w-2", "s, x", [10, 12, 11, 13])):
        text = f"axes: {{x: {{range: 2}}, s: {{values: [a, b]}}}}\nstages: {{sim: {{over: [{over}], command: [x], outputs: {{e: {{value: int}}}}}}}}"
        run = Handmade(tmp_path, text, name).stage("sim", 4)
        runs.append(run)
        for index, value in enumerate(values):
            run.done("sim", index, e=value)
    (result,) = compared(*runs).results
    assert (result.matched, result.differ, result.largest) == (4, 4, (10, "s=a, x=0"))


def test_points_are_told_apart_by_every_digit_and_letter(tmp_path: Path) -> None:
    long = "a" * 40
    text = f"""
axes: {{k: {{values: [0.3, 0.30000000000000004, {long}b{long}, {long}c{long}]}}}}
stages: {{sim: {{over: [k], command: [x], outputs: {{e: {{value: int}}}}}}}}"""
    runs = [Handmade(tmp_path, text, name).stage("sim", 4) for name in ("w-1", "w-2")]
    for index in range(4):
        runs[0].done("sim", index, e=index)
    for index, value in ((1, 9), (3, 3)):
        runs[1].done("sim", index, e=value)
    (result,) = compared(*runs).results
    assert (result.matched, result.differ, result.largest) == (2, 1, (8, "k=0.30000000000000004"))


def test_a_shift_smaller_than_the_scatter_is_no_difference(tmp_path: Path) -> None:
    one, other = sweep(tmp_path, "w-1", range(12)), sweep(tmp_path, "w-2", range(12), seed=2)
    found = compared(one, other)
    assert [one.verdict for one in found.times] == ["scatter"]
    assert not found.slower(0.0)


def test_slower_means_that_all_of_the_interval_is(tmp_path: Path) -> None:
    found = compared(sweep(tmp_path, "w-1", range(12)), sweep(tmp_path, "w-2", range(12), 1.3, seed=2))
    assert found.slower(0.2)
    assert not found.slower(0.3)


def test_without_common_points_all_are_compared_with_all(tmp_path: Path) -> None:
    one, other = sweep(tmp_path, "w-1", range(0, 30, 3)), sweep(tmp_path, "w-2", range(90, 120, 3), 2)
    (times,) = compared(one, other).times
    assert (times.matched, times.tasks) == (0, (10, 10))
    assert times.ratio == pytest.approx(2, rel=0.05)
    assert times.verdict == "slower"


def test_of_single_tasks_only_a_difference_beyond_a_machines_own_delays_counts(tmp_path: Path) -> None:
    one, other = sweep(tmp_path, "w-1", range(1)), sweep(tmp_path, "w-2", range(1), 2)
    assert [times.verdict for times in compared(one, other).slower(0.2)] == ["too few"]
    one, other = sweep(tmp_path, "w-3", range(1), 0.01), sweep(tmp_path, "w-4", range(1), 0.05)
    assert not compared(one, other).slower(0.2)


def test_what_runs_were_given_is_told_where_it_differs(tmp_path: Path) -> None:
    one = sweep(tmp_path, "w-1", range(1), hyperparameters={"lr": 0.1, "n": 3})
    other = sweep(tmp_path, "w-2", range(1), hyperparameters={"lr": 0.2, "n": 3})
    one.stage("train", 1, params="a", module="m")
    other.stage("train", 1, params="b", module="m")
    found = compared(one, other)
    assert [tuple(each) for each in found.hyperparameters] == [("lr", 0.1, 0.2)]
    assert [tuple(each) for each in found.workflow] == [("train", ["params"], ["params"])]
    assert not found.versions


def test_what_the_cache_gave_took_no_time_here(tmp_path: Path) -> None:
    one = sweep(tmp_path, "w-1", range(3))
    other = Handmade(tmp_path, SWEEP.replace("X", "0, 1, 2"), "w-2").stage("sim", 3)
    for index in range(3):
        made = {"values": {"e": float(index)}, "artifacts": {}, "seconds": 2.0, "key": f"{index:032x}"}
        other.write("cached", stage="sim", index=index, run="w-1", **made)
    (times,) = compared(one, other).times
    assert (times.tasks, times.cached, times.verdict) == ((3, 0), (0, 3), "none")
    assert [each.differ for each in compared(one, other).results] == [0]


def test_a_run_whose_workflow_is_gone_is_compared_by_what_is_left(tmp_path: Path) -> None:
    one, other = sweep(tmp_path, "w-1", range(12)), sweep(tmp_path, "w-2", range(12), 2, seed=2)
    other.paths.workflow.unlink()
    found = compared(one, other)
    assert [(each.matched, each.verdict) for each in found.times] == [(0, "slower")] or found.times[
        0
    ].tasks == (12, 12)
    assert any("w-2: its workflow cannot be read" in note for note in found.notes)


def test_a_damaged_journal_leaves_what_the_run_was_given(tmp_path: Path) -> None:
    one = sweep(tmp_path, "w-1", range(2), hyperparameters={"lr": 1})
    other = sweep(tmp_path, "w-2", range(2), hyperparameters={"lr": 2})
    other.write("stage", stage=3)
    found = compared(one, other)
    assert [each.name for each in found.hyperparameters] == ["lr"]
    assert any("journal" in note for note in found.notes)


def test_a_run_that_diverged_has_no_finite_mean_and_large_whole_numbers_are_told_apart(
    tmp_path: Path,
) -> None:
    def made(name: str, *values: object) -> Handmade:
        run = Handmade(tmp_path, "axes: {x: {range: 3}}\nstages: {a: {over: [x], command: [x]}}", name)
        run.stage("a", 3)
        for index, value in enumerate(values):
            run.done("a", index, large=2**60 + index + int(name[-1]), v=value)
        return run

    first, second = made("w-1", 1.0, math.inf, math.nan), made("w-2", 1.0, math.inf, -math.inf)
    large, diverged = comparison_document(compared(first, second))["results"].values()
    assert large["difference"] == large["largest"]["difference"] == 1
    assert diverged["differ"] == 1
    assert diverged["mean"] == ["NaN", "NaN"]
    assert diverged["largest"] == {"difference": "NaN", "at": "x=2"}
    (_, other) = compared(made("w-3", 1.0, 1.0, 1.0), made("w-4", 1.0, 1.0, math.inf)).results
    assert (other.mean, other.largest) == ((1.0, math.inf), (math.inf, "x=2"))
    (_, great) = compared(made("w-5", 1e308, 1e308, 1e308), made("w-6", 1e308, 1e308, 0.0)).results
    assert great.mean == pytest.approx((1e308, 1e308 / 3 * 2))


def test_null_in_one_run_alone_is_missing_and_not_another_value(tmp_path: Path) -> None:
    first, second = [1.0, None, None, 4.0, 5.0], [1.0, 2.0, None, None, 6.0]
    runs = []
    for name, values in (("w-1", first), ("w-2", second)):
        run = Handmade(tmp_path, SWEEP.replace("X", "1, 2, 3, 4, 5"), name).stage("sim", 5)
        for index, value in enumerate(values):
            made: dict[str, Any] = {"values": {"e": value}, "artifacts": {}}
            run.work("start", "sim", index)
            run.work("done", "sim", index, seconds=1.0, key=f"{index:032x}", parts=["p", "i"], **made)
        runs.append(run)
    contrast = compared(*runs)
    (result,) = contrast.results
    assert (result.matched, result.differ, result.missing, result.mean) == (5, 1, 2, (3.0, 3.5))
    assert any("1, 2 missing in one" in line for line in comparison_lines(contrast))
    assert comparison_document(contrast)["results"]["sim.e"]["missing"] == 2


def test_means_of_large_whole_numbers_are_exact(tmp_path: Path) -> None:
    runs = []
    for name, shift in (("w-1", 0), ("w-2", 2)):
        run = Handmade(tmp_path, SWEEP.replace("X", "1, 2"), name).stage("sim", 2)
        for index in range(2):
            made: dict[str, Any] = {"values": {"e": 2**60 + 2 * index + shift}, "artifacts": {}}
            run.work("start", "sim", index)
            run.work("done", "sim", index, seconds=1.0, key=f"{index:032x}", parts=["p", "i"], **made)
        runs.append(run)
    assert compared(*runs).results[0].mean == (2**60 + 1, 2**60 + 3)
