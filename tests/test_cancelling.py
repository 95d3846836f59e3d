"""Stopping a run, a stage or a task: soon, wholly, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.controller.controller import STOP_SECONDS
from tests.throwaway import Project, Run, wait_for

WORKFLOW = """
    axes: {n: {range: 2}}
    stages:
      command: {command: "setsid sleep 600 & sleep 600"}
      python: {module: "steps:waits"}
      next: {command: [echo, next], after: [command]}
"""
STEPS = """
    import subprocess

    @diel.module(kind="analysis")
    def waits() -> dict:
        subprocess.run(["sleep", "600"])
        return {}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).workflow(WORKFLOW).module("steps", STEPS)


def running(run: Run, *stages: str) -> bool:
    begun = {record["stage"] for record in run.records("start")}
    return begun >= set(stages)


def seconds_to_end(run: Run) -> float:
    """Seconds from the newest request to the end that the controller wrote down; starting `diel cancel`, which
    takes its time on a busy machine, is none of them.
    """
    asked = max(int(path.name.split("-")[1], 16) for path in (run.root / "requests").glob("cancel-*.json"))
    (end,) = run.records("end")
    return float(end["time"]) - asked / 1e9


def test_a_run_ends_soon_with_all_its_processes(project: Project) -> None:
    process = project.start("run", "flow.yaml")
    wait_for(lambda: project.folder.joinpath("runs").exists() and project.runs() == 1)
    run = project.newest()
    wait_for(lambda: running(run, "command", "python"))
    said = project.diel("cancel")
    ended = project.end(process, 3)
    assert seconds_to_end(run) < STOP_SECONDS
    assert said == f"{run.id} cancelled\n"
    assert f"{run.id} cancelled after" in ended
    assert run.history().state == "cancelled"
    for stage in ("command", "python"):
        assert run.counts(stage) == {"cancelled": 1}
    assert run.counts("next") in ({"cancelled": 1}, {"skipped": 1})
    assert not run.processes()

    project.diel("cancel", code=None)  # it has ended: told, and no harm done
    assert run.history().state == "cancelled"


PARTS = """
    axes: {n: {range: 2}}
    stages:
      stage: {over: [n], command: ["sh", "-c", 'test -e "$DIEL_RUN_DIR/../../go" || sleep 600']}
      after_stage: {over: [n], command: [echo, after], after: [stage]}
      tasks: {over: [n], command: ["sh", "-c", 'test -e "$DIEL_RUN_DIR/../../go" || sleep 600']}
      reads: {over: [n], command: [echo, "read"], after: [tasks]}
      waits: {command: [echo, waits], after: [tasks]}
      other: {command: [echo, other]}
"""


def test_stages_and_tasks_can_be_stopped_alone(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(PARTS)
    process = project.start("run", "flow.yaml")
    wait_for(lambda: project.folder.joinpath("runs").exists() and project.runs() == 1)
    run = project.newest()
    wait_for(lambda: running(run, "stage"))
    project.diel("cancel", run.id, "stage")
    wait_for(lambda: run.attempts("tasks", 0) and run.attempts("tasks", 1))
    assert project.diel("cancel", run.id, "tasks/0") == "tasks/0 (n=0) cancelled\n"
    wait_for(lambda: run.counts("tasks").get("cancelled") == 1)
    assert process.poll() is None
    project.diel("cancel", run.id, "tasks/1")
    project.end(process, 3)
    (project.folder / "go").touch()
    assert run.counts("stage") == {"cancelled": 2}
    assert run.counts("tasks") == {"cancelled": 2}
    assert run.counts("after_stage") == {"skipped": 2}
    assert run.counts("waits") == {"skipped": 1}
    assert run.counts("other") == {"done": 1}
    assert run.history().state == "cancelled"
    assert not run.processes()

    project.diel("resume")
    assert run.history().state == "succeeded"
    assert run.counts("stage") == run.counts("tasks") == run.counts("reads") == {"done": 2}
    assert (run.attempts("other"), run.attempts("stage")) == ([1], [1, 2])


def test_a_run_that_has_hardly_begun_is_stopped_too(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(
        """
    axes: {n: {range: 300}}
    stages: {slow: {over: [n], command: [sleep, "600"]}}
"""
    )
    process = project.start("run", "flow.yaml")
    wait_for(lambda: project.folder.joinpath("runs").exists() and project.runs() == 1)
    run = project.newest()
    wait_for(lambda: run.records("queued"))
    project.diel("cancel", run.id)
    project.end(process, 3)
    assert seconds_to_end(run) < STOP_SECONDS, "it waited for tasks that had not begun"
    assert run.counts("slow") == {"cancelled": 300}
    assert not run.processes()
