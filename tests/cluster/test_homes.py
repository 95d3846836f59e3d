"""The three homes of a controller, on a real Slurm: submitted, handed over, killed, cancelled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from diel import api
from diel.base.paths import RunPaths
from diel.store.project.lease import newest_epoch
from tests.cluster.campaign import OnCluster, kill_controller
from tests.cluster.cluster import Cluster
from tests.throwaway import wait_for

FLOW = """
    axes:
      i: {range: 6}
    stages:
      work:
        over: [i]
        command: "echo \\"{\\\\\\"square\\\\\\": ${{ i * i }}}\\" > \\"$DIEL_RESULT\\""
        outputs: {square: {value: int}}
        resources: {walltime: 1m}
"""
GATED = """
    axes:
      i: {range: 4}
    stages:
      wait:
        over: [i]
        command: "touch '${{ run.dir }}/begun'; setsid sleep 300 & while [ ! -e '${{ run.dir }}/go' ]; do sleep 0.1; done"
        resources: {walltime: 5m}
      after: {after: [wait], command: "true"}
"""
KEEPER = "diel.backends.executors.node"


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[OnCluster]:
    yield site(OnCluster(tmp_path, cluster))
    cluster.clear()


def site(project: OnCluster, walltime: str = "30m", **pool: Any) -> OnCluster:
    """Two nodes for a run whose controller is a job, with more keys for its pool."""
    cpu = {"nodes": 2, "block_nodes": 2, "blocks": 1, "idle": "20s", **pool}
    controller = {"home": "job", "walltime": walltime}
    return project.site(poll="1s", silence="8s", controller=controller, pools={"cpu": cpu})


def block_jobs(project: OnCluster) -> list[str]:
    """The jobs of all blocks that the run ever asked for."""
    return [block["job"] for block in project.status()["blocks"] if block["job"]]


def keepers(cluster: Cluster) -> int:
    """On how many nodes a block of the run has begun."""
    found = 0
    for process in cluster.processes():
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            guard = parent is not None and KEEPER in parent.cmdline()  # as the keeper, of which it is a fork
            found += KEEPER in process.cmdline() and not guard
    return found


def gated(project: OnCluster, *words: str) -> Path:
    """Submits the gated workflow, and waits until it is at its tasks."""
    project.workflow(GATED)
    root = project.submit(*words).root
    wait_for((root / "begun").exists, 60)
    return root


def test_a_job_hands_its_run_over_before_its_walltime_ends(
    project: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks go on meanwhile: none is begun twice, and the run never looks interrupted."""
    site(project, walltime="24s").workflow(GATED)
    monkeypatch.setattr("diel.controller.home.SHORTEST", 0.0)  # for a test that lasts no day
    for name, value in project.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.folder)
    paths = RunPaths(api.submit("flow.yaml", site="mine").dir)
    seen = {project.state()}

    def has_begun() -> bool:
        seen.add(project.state())
        return (paths.root / "begun").exists()

    wait_for(has_begun, 120)  # its first block may wait for longer than one such controller lives
    before = newest_epoch(paths)

    def taken_twice() -> bool:
        seen.add(project.state())
        return newest_epoch(paths) >= before + 2

    wait_for(taken_twice, 120)
    (paths.root / "go").touch()
    project.wait_for_end()
    assert seen <= {"pending", "running"}
    run = project.newest()
    assert [len(run.attempts("wait", index)) for index in range(4)] == [1] * 4
    project.assert_nothing_is_left()  # no successor either


def waiting(project: OnCluster) -> tuple[str, str]:
    """A run whose controller was killed while its block waited in the queue: the jobs in its way, and the
    block's.
    """
    blocker = project.cluster.sbatch("sleep 300", "-N4", "--exclusive")
    project.cluster.wait_for(blocker, "RUNNING")
    project.workflow(FLOW)
    project.submit("--home", "login")
    wait_for(lambda: block_jobs(project))
    kill_controller(project)
    (job,) = block_jobs(project)
    return blocker, job


def test_a_block_that_waits_in_the_queue_keeps_its_place_when_its_controller_goes(project: OnCluster) -> None:
    blocker, job = waiting(project)
    assert project.state() == "interrupted"
    project.diel("resume")
    wait_for(lambda: "pending" in project.diel("explain", "work"))
    project.cluster.scancel(blocker)
    project.wait_for_end()
    assert block_jobs(project) == [job]
    project.assert_nothing_is_left()


def test_a_block_that_begins_without_a_controller_waits_for_the_next_one(project: OnCluster) -> None:
    blocker, job = waiting(project)
    project.cluster.scancel(blocker)
    project.cluster.wait_for(job, "RUNNING")
    wait_for(lambda: keepers(project.cluster) == 2)
    project.diel("resume")
    project.wait_for_end()
    assert block_jobs(project) == [job]
    project.assert_nothing_is_left()


def test_nodes_go_over_to_the_next_controller_when_their_tasks_have_ended(project: OnCluster) -> None:
    """Twelve tasks on eight cores: four of them begin in what their first controller asked for."""
    text = GATED.replace("range: 4", "range: 12").partition("      after:")[0]
    project.workflow(text)
    run = project.submit("--home", "login")
    wait_for(lambda: len(run.records("start")) == 8, 60)
    (job,) = block_jobs(project)
    kill_controller(project)
    project.diel("resume")
    wait_for(lambda: project.state() == "running")
    (run.root / "go").touch()
    project.wait_for_end()
    assert block_jobs(project) == [job]
    assert [len(run.attempts("wait", index)) for index in range(12)] == [1] * 12
    assert {block["epoch"] for block in project.status()["blocks"]} == {2}
    project.assert_nothing_is_left()


def test_a_waiting_block_that_would_be_asked_for_otherwise_is_given_back(project: OnCluster) -> None:
    blocker, job = waiting(project)
    path = project.folder / "schedulers/mine.yaml"
    path.write_text(path.read_text().replace("walltime: 10m", "walltime: 9m"))
    project.diel("resume", "--site", "mine")
    wait_for(lambda: len(block_jobs(project)) == 2)
    project.cluster.wait_for(job, "CANCELLED")
    project.cluster.scancel(blocker)
    project.wait_for_end()
    project.assert_nothing_is_left()


def test_while_its_job_waits_a_run_is_pending_and_can_be_taken_back(project: OnCluster) -> None:
    project.workflow(FLOW)
    blocker = project.cluster.sbatch("sleep 300", "-N4", "--exclusive")
    project.cluster.wait_for(blocker, "RUNNING")
    project.submit()
    status = project.status()
    assert (status["state"], status["controller"]["awaited"]) == ("pending", True)
    job = status["controller"]["job"]
    assert f"requested as job {job}" in project.diel("status")
    assert f"waits for its controller, job {job} (pending" in project.diel("resume", code=2)
    assert f"had not come yet (job {job})" in project.diel("cancel")
    assert project.cluster.state(job) == "CANCELLED"
    assert project.state() == "cancelled"


def test_an_allocation_that_ends_leaves_an_interrupted_run(project: OnCluster) -> None:
    root = gated(project, "--home", "inside")
    project.cluster.scancel(project.status()["controller"]["job"])
    wait_for(lambda: project.state() == "interrupted")
    project.assert_nothing_is_left()
    (root / "go").touch()
    project.diel("resume")
    project.wait_for_end()
