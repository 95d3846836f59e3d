"""`diel trend`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.comparison.test_comparison import sweep

Capture = pytest.CaptureFixture[str]


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
