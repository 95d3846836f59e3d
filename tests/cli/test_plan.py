"""`diel plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.call import call

Capture = pytest.CaptureFixture[str]
FLOW = """\
diel: 1
name: flow
description: What it is for.
axes: {i: {range: 1000000}, made: {from: pick.list}}
stages:
  many:
    over: [i]
    command: [echo, "${{ i }}"]
    outputs: {y: {value: int}}
    resources: {walltime: 36s}
  pick: {kind: training, command: [x, "${{ many.y }}"], outputs: {list: {value: list}}, timeout: 1h}
"""
LATER = "  later: {over: [made], command: [x]}\n"


@pytest.fixture
def flow(workspace: Path) -> Path:
    path = workspace / "flow.yaml"
    path.write_text(FLOW)
    return path


def test_each_stage_is_a_row_with_tasks_axes_and_bounds(flow: Path, capsys: Capture) -> None:
    said = call(capsys, "plan", "flow.yaml")
    assert said.code == 0
    assert said.out.startswith("flow: What it is for.\n")
    rows = {line.split()[0]: line.split() for line in said.out.splitlines() if line}
    assert " ".join(rows["many"]) == "many analysis 1,000,000 i (1,000,000) local 1 core 36s 10,000"
    assert " ".join(rows["pick"]) == "pick training 1 local 1 core 1h00m 1"
    assert "tasks          1,000,001 tasks" in said.out
    assert "core-hours     at most 10,001" in said.out
    assert "longest chain  many → pick" in said.out


def test_what_only_the_run_will_tell_is_left_open(flow: Path, capsys: Capture) -> None:
    flow.write_text(FLOW + LATER)
    said = call(capsys, "plan", "flow.yaml").out
    assert "tasks          1,000,001+… tasks: the run will tell the rest" in said
    assert "core-hours     no bound: later has no `walltime` or `timeout`" in said
    flow.write_text(FLOW + LATER.replace("[x]", "[x], timeout: 1h"))
    assert "no bound: the number of tasks is not known" in call(capsys, "plan", "flow.yaml").out


def test_json_has_the_same_figures(flow: Path, capsys: Capture) -> None:
    document = json.loads(call(capsys, "plan", "flow.yaml", "--json").out)
    assert (document["tasks"], document["core_hours"]) == (1_000_001, 10_001.0)
    assert document["stages"]["many"]["axes"] == {"i": 1_000_000}
    assert document["stages"]["many"]["tasks"] == 1_000_000
    assert document["critical_path"] == ["many", "pick"]


def test_what_a_task_asks_for_is_told(flow: Path, capsys: Capture) -> None:
    flow.write_text(FLOW.replace("walltime: 36s", "ranks: 1, memory: 1MiB"))
    said = call(capsys, "plan", "flow.yaml").out
    assert "1 rank, 1 core, 1.0 MiB" in said
    assert "launcher       many: " in said


def test_a_stage_that_fits_no_pool_is_refused(flow: Path, capsys: Capture) -> None:
    flow.write_text(FLOW.replace("walltime: 36s", "gpus_per_rank: 64"))
    said = call(capsys, "plan", "flow.yaml")
    assert said.code == 2
    assert "lacks 64 GPUs a node" in said.err


def test_nothing_is_made(flow: Path, capsys: Capture, workspace: Path) -> None:
    call(capsys, "plan", "flow.yaml")
    assert [path.name for path in workspace.iterdir()] == ["flow.yaml"]
