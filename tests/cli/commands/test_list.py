"""`diel list`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.written import Written

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def three(workspace: Path) -> Path:
    runs = workspace / "runs"
    for age, (name, state) in enumerate({"w-1": "succeeded", "other-1": "failed", "w-2": ""}.items()):
        run = Written(runs, name, alive=not state).done(0).failed(1)
        if state:
            run.end(state)
        os.utime(run.paths.run_file, (age + 1, age + 1))
    (runs / "not-a-run").mkdir()
    return runs


def test_every_run_is_a_row_the_oldest_first(three: Path, capsys: Capture) -> None:
    said = call(capsys, "list")
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["w-1", "succeeded"], ["other-1", "failed"], ["w-2", "running"]]
    assert rows[0][2:4] == ["1/5", "1"]


def test_json_has_the_runs_with_their_counts(three: Path, capsys: Capture) -> None:
    runs = json.loads(call(capsys, "list", "--json", "--size").out)["runs"]
    assert [(run["run"], run["workflow"], run["state"]) for run in runs] == [
        ("w-1", "w", "succeeded"),
        ("other-1", "other", "failed"),
        ("w-2", "w", "running"),
    ]
    assert runs[0]["done"] == 1
    assert runs[0]["failed"] == 1
    assert runs[0]["size"] > 0


def test_a_run_that_cannot_be_read_does_not_hide_the_others(three: Path, capsys: Capture) -> None:
    Written(three, "odd-1").write("stage", nothing="known")
    said = call(capsys, "list")
    assert said.code == 0
    assert "other-1" in said.out
    assert "odd-1" in said.err


def test_without_runs_it_says_so(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "list")
    assert said.code == 0
    assert "no runs in runs" in said.out
    assert json.loads(call(capsys, "list", "--json").out) == {"runs": []}
