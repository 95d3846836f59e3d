"""What `diel explain` says of tasks that run at the same time as others."""

from __future__ import annotations

import json
from pathlib import Path

from tests.throwaway import Project, wait_for

SITE = "name: wide\nscheduler: local\npools:\n  local: {cores: 4}\n"
FLOW = """
    stages:
      first: {command: 'while [ ! -e "$DIEL_RUN_DIR"/tasks/before/0/begun ]; do sleep 0.05; done'}
      before:
        command: 'touch begun; while [ ! -e "$DIEL_RUN_DIR/go" ]; do sleep 0.05; done; echo 1 > n.txt'
        outputs: {n: n.txt}
        resources: {cores_per_rank: CORES}
      make:
        command: 'seq 3 | diel stream put numbers'
        outputs: {numbers: {stream: true}}
        resources: {cores_per_rank: 2}
        after: [first]
        MORE
      add: {command: 'diel stream get numbers', inputs: {numbers: make.numbers}}
"""


def why(folder: Path, cores: int, more: str) -> dict[str, list[str]]:
    """What is said of each task of the gang, and of the stages, while the task before them runs."""
    project = Project(folder).workflow(FLOW.replace("CORES", str(cores)).replace("MORE", more))
    (folder / "schedulers").mkdir()
    (folder / "schedulers" / "wide.yaml").write_text(SITE, encoding="utf-8")
    process = project.start("run", "--quiet", "--site", "wide", "flow.yaml")
    try:
        wait_for((folder / "runs/flow-1/tasks/before/0/begun").exists)
        wait_for(lambda: project.newest().results("first"))
        found = {
            task: json.loads(project.diel("explain", "last", task, "--json"))["why"]
            for task in ("make/0", "add/0")
        }
        found["run"] = project.diel("explain", "last").splitlines()
    finally:
        (folder / "runs/flow-1/go").touch()
        project.end(process)
    return found


def test_a_task_says_that_it_waits_for_room_beside_its_gang(tmp_path: Path) -> None:
    found = why(tmp_path, 2, "")
    until = "waits until there is room for all of them"
    assert found["make/0"] == [f"all its inputs are there: it runs at the same time as 'add', and {until}"]
    assert found["add/0"] == [f"all its inputs are there: it runs at the same time as 'make', and {until}"]
    assert any(f"runs at the same time as 'make', and {until}" in line for line in found["run"])


def test_a_task_says_which_of_its_gang_is_not_ready(tmp_path: Path) -> None:
    found = why(tmp_path, 1, "inputs: {n: before.n}")
    assert found["make/0"] == ["waits for before/0, running"]
    assert found["add/0"] == ["waits for make/0, which runs at the same time and waits for before/0, running"]
