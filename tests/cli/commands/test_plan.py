"""`diel plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.cli.clustered import at_site

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
    assert "tasks          1,000,001+… tasks: the run will show the rest" in said
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


ADAPTIVE = """\
diel: 1
name: flow
hyperparameters: {x: {type: float, low: 0, high: 1}}
axes:
  material: {values: [Si, Ge]}
  trial: {search: {trials: 16, parallel: 4, minimize: f.e, parameters: [x], core_hours: 5}}
  round: {loop: {max: 10, until: "${{ g.e < 1 }}"}}
  again: {loop: {max: 3}}
stages:
  f: {over: [material, trial], command: [x, "${{ hp.x }}"], outputs: {e: {value: float}}, timeout: 1h}
  g: {over: [round], command: [x], outputs: {e: {value: float}}, timeout: 1h}
  h: {over: [again], command: [x], timeout: 1h}
"""


def test_searches_and_loops_are_counted_at_most(workspace: Path, capsys: Capture) -> None:
    (workspace / "flow.yaml").write_text(ADAPTIVE)
    said = call(capsys, "plan", "flow.yaml").out
    assert "search         trial: up to 16 trials, 4 at a time, for each material\n" in said
    assert "loop           round: up to 10 rounds\n" in said
    assert "loop           again: 3 rounds\n" in said
    assert "tasks          up to 45 tasks\n" in said  # 2 x 16 + 10 + 3
    assert "core-hours     at most 45\n" in said
    rows = {line.split()[0]: line for line in said.splitlines() if line}
    assert "material (2) × trial (≤16)" in rows["f"]
    assert " ≤32 " in rows["f"]
    assert " 3 " in rows["h"]
    found = json.loads(call(capsys, "plan", "flow.yaml", "--json").out)
    assert found["adaptive"]["trial"] == {
        "kind": "search",
        "most": 16,
        "parallel": 4,
        "each": ["material"],
        "may_end_early": True,
    }
    assert found["adaptive"]["again"]["may_end_early"] is False
    assert found["stages"]["f"]["tasks"] == 32
    assert "up to 45 tasks" in call(capsys, "validate", "flow.yaml").out


def test_a_search_of_all_its_trials_has_as_many_tasks(workspace: Path, capsys: Capture) -> None:
    text = ADAPTIVE.replace(", core_hours: 5", "").replace(', until: "${{ g.e < 1 }}"', "")
    (workspace / "flow.yaml").write_text(text)
    assert "tasks          45 tasks\n" in call(capsys, "plan", "flow.yaml").out


def test_nothing_is_made(flow: Path, capsys: Capture, workspace: Path) -> None:
    call(capsys, "plan", "flow.yaml")
    assert [path.name for path in workspace.iterdir()] == ["flow.yaml"]


# --- a site with a scheduler ----------------------------------------------------------------------


def test_blocks_are_told_by_shape_with_the_home_of_the_controller(workspace: Path, capsys: Capture) -> None:
    at_site(workspace, max_walltime="6h")
    said = call(capsys, "plan", "flow.yaml", "--site", "cluster").out
    rows = [" ".join(line.split()) for line in said.splitlines()]
    assert "cpu-1c-36s cpu many, same 16 2 nodes × 8 cores 1h00m 3" in rows
    assert "cpu-2n-2h00m cpu mpi 1 2 nodes × 8 cores 2h01m 3" in rows
    assert "controller login: a process of its own on the host where you type `diel submit`" in rows
    assert any(row.startswith("runs on site 'cluster', 48 cores, through Parsl") for row in rows)


def test_json_has_the_blocks_and_the_home(workspace: Path, capsys: Capture) -> None:
    at_site(workspace, home="job", max_walltime="6h")
    document = json.loads(call(capsys, "plan", "flow.yaml", "--site", "cluster", "--json").out)
    assert (document["home"], document["executor"]) == ("job", "blocks")
    assert document["blocks"][0] == {
        "shape": "cpu-1c-36s",
        "pool": "cpu",
        "stages": ["many", "same"],
        "tasks": 16,
        "nodes": 2,
        "cores": 8,
        "gpus": 0,
        "walltime_s": 3600.0,
        "most": 3,
    }
    assert "scripts" not in document


def test_what_a_user_must_still_give_is_told(flow: Path, capsys: Capture) -> None:
    said = call(capsys, "plan", "flow.yaml", "--site", "polaris").out
    assert "still needed   site 'polaris' needs an account" in said


def test_a_home_that_the_site_cannot_give_is_refused(flow: Path, capsys: Capture) -> None:
    said = call(capsys, "plan", "flow.yaml", "--home", "job")
    assert said.code == 2
    assert "has no scheduler" in said.err
