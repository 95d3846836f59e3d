"""`--sized-by RUN`: what a run used is what the next one asks for, to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.controller.start import plan_again
from tests.handmade import Handmade
from tests.throwaway import Project

FLOW = """
    axes: {n: {range: 3}}
    stages:
      work:
        over: [n]
        command: "python3 -c 'x = bytearray([1]) * (100 << 20); import time; time.sleep(0.3)'"
        resources: {memory: 2GiB, cores_per_rank: 2}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("sized")).workflow(FLOW).machine("two", 2)
    project.run("-q", "--site", "two")
    return project


def test_advice_is_explained_planned_used_and_kept(project: Project) -> None:
    advice = json.loads(project.diel("explain", "flow-1", "work", "--json"))["advice"]
    memory = next(one for one in advice if one["key"] == "memory")
    assert memory["asked"] == 2 << 30
    assert 100 << 20 < memory["used"] < 120 << 20
    told = project.diel("explain", "flow-1", "work")
    assert (
        "work could ask for (`diel run FILE --sized-by flow-1` does)\n    memory: 256.0 MiB, not 2.0 GiB"
        in told
    )
    sized = project.run("-q", "--site", "two", "--no-cache", "--sized-by", "flow-1")
    assert sized.counts("work") == {"done": 3}
    assert "of 256.0 MiB" in project.diel("explain", sized.id, "work/0")
    again = plan_again(RunPaths(sized.root)).workflow.stages["work"].resources
    assert again.memory == memory["value"]
    assert "256.0 MiB" in project.diel("plan", "flow.yaml", "--sized-by", "flow-1")


def test_a_run_that_measured_nothing_of_these_stages_is_refused(project: Project) -> None:
    other = Project(project.folder, "other").workflow("stages: {new: {command: [echo, x]}}")
    said = other.diel("run", "other.yaml", "--sized-by", "flow-1", code=2)
    assert "--sized-by flow-1: flow-1 has no task of this workflow's stages that ended well (new)" in said
    assert "no run 'gone'" in other.diel("run", "other.yaml", "--sized-by", "gone", code=2)
    assert not list((project.folder / "runs").glob("other-*"))


def test_no_stage_asks_for_more_than_its_pool_has(tmp_path: Path) -> None:
    """Threads of a task can use more cores than it asked for."""
    text = "stages: {work: {command: [x], resources: {memory: 1GiB}}}"
    used = {"cpu_seconds": 70.0, "system_seconds": 0.0, "memory_bytes": 1 << 50}
    run = Handmade(tmp_path, text).stage("work", 1)
    run.work("done", "work", 0, seconds=10.0, usage=used, key="k", parts=["p", "i"])
    project = Project(tmp_path).workflow(text).machine("two", 2)
    planned = project.diel("plan", "flow.yaml", "--site", "two", "--sized-by", "w-1", "--json")
    assert json.loads(planned)["stages"]["work"]["cores"] == 2
