"""`diel compare`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.comparison.test_comparison import sweep

Capture = pytest.CaptureFixture[str]


def test_a_comparison_says_what_differs_and_how_sure_that_is(workspace: Path, capsys: Capture) -> None:
    sweep(workspace, "w-1", range(12), hyperparameters={"lr": 1})
    sweep(workspace, "w-2", range(12), 1.5, seed=2, hyperparameters={"lr": 2})
    said = call(capsys, "compare", "w-1", "w-2")
    assert said.code == 0
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert lines[0] == "w-1 w-2"
    assert "lr 1 2" in lines
    assert "versions and surroundings: the same" in lines
    (times,) = [line for line in lines if line.startswith("sim 12 pairs")]
    assert times.endswith(": slower")


def results(capsys: Capture) -> list[str]:
    out = call(capsys, "compare", "w-1", "w-2").out
    return [" ".join(line.split()) for line in out.splitlines() if line.startswith("  sim.e")]


def test_means_of_results_are_those_of_the_tasks_that_are_compared(workspace: Path, capsys: Capture) -> None:
    sweep(workspace, "w-1", range(12))
    sweep(workspace, "w-2", range(5, 20))
    assert results(capsys) == ["sim.e 7 pairs 0 8 8"], "the same at 5 to 11, whatever the others are"


def test_results_that_hardly_share_points_are_compared_all_with_all(workspace: Path, capsys: Capture) -> None:
    sweep(workspace, "w-1", range(10))
    sweep(workspace, "w-2", range(9, 20))
    assert results(capsys) == ["sim.e 10 and 11 4.5 14 +211.11% <0.001"]


def test_fail_slower_is_an_exit_code(workspace: Path, capsys: Capture) -> None:
    sweep(workspace, "w-1", range(12))
    sweep(workspace, "w-2", range(12), 1.5, seed=2)
    said = call(capsys, "compare", "w-1", "--fail-slower", "20%", "--json")
    assert said.code == 1
    assert said.err.startswith("1 stage slower in w-2 than in w-1, by more than 20%: sim by 4")
    assert json.loads(said.out)["times"]["sim"]["verdict"] == "slower"
    assert call(capsys, "compare", "w-1", "--fail-slower", "0.6").code == 0
    assert call(capsys, "compare", "w-2", "w-1", "--fail-slower", "20%").code == 0


def test_a_wrong_share_and_a_wrong_run_are_refused(workspace: Path, capsys: Capture) -> None:
    sweep(workspace, "w-1", range(1))
    said = call(capsys, "compare", "w-1", "w-1", "--fail-slower", "much")
    assert (said.code, "expected a share such as 20% or 0.2, found 'much'" in said.err) == (2, True)
    assert call(capsys, "compare", "w-1", "v-1").code == 2


@pytest.fixture
def runs(workspace: Path) -> None:
    for number, factor in enumerate((1.0, 1.01, 0.99, 1.0, 1.02, 1.5), 1):
        sweep(workspace, f"w-{number}", range(2), factor).end("succeeded")


@pytest.mark.usefixtures("runs")
def test_a_trend_lists_runs_and_draws_figures(capsys: Capture) -> None:
    lines = [" ".join(line.split()) for line in call(capsys, "trend", "w").out.splitlines()]
    assert lines[0] == "run began state took done cached failed"
    assert lines[1].startswith("w-1 ")
    (result,) = [line for line in lines if line.startswith("sim.e (x=1)")]
    assert result == "sim.e (x=1) 1 1.5 +50.00% ▁▁▁▁▁█ beyond the scatter"


@pytest.mark.usefixtures("runs")
def test_a_workflow_can_be_named_by_its_file(capsys: Capture, workspace: Path) -> None:
    (workspace / "it.yaml").write_text("diel: 1\nname: w\nstages: {sim: {command: ['true']}}\n")
    assert call(capsys, "trend", "it.yaml", "--csv").out == call(capsys, "trend", "w", "--csv").out
    missing = call(capsys, "trend", "other.yaml")
    assert missing.code == 2
    assert "other.yaml" in missing.err


@pytest.mark.usefixtures("runs")
def test_a_trend_is_csv_and_json_too(capsys: Capture) -> None:
    rows = list(csv.DictReader(io.StringIO(call(capsys, "trend", "w", "sim.e", "--csv", "--last", "2").out)))
    assert [row["run"] for row in rows] == ["w-5", "w-6"]
    assert [row["sim.e (x=1)"] for row in rows] == ["1.02", "1.5"]
    document = json.loads(call(capsys, "trend", "w", "--json").out)
    assert document["measures"]["sim.e (x=1)"]["beyond"] is True
    assert [run["done"] for run in document["runs"]] == [2] * 6


def test_without_a_bench_it_says_how_to_get_one(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "trend", "--bench")
    assert said.code == 2
    assert "no runs of 'bench' in runs" in said.err
    assert "diel init --from bench DIR" in said.err
    assert "which workflow?" in call(capsys, "trend").err
