"""The three homes of a controller, on a real Slurm: submitted, handed over, killed, cancelled."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from diel import api
from diel.paths import RunPaths
from diel.project.lease import newest_epoch
from diel.project.submission import job_prefix
from tests.cluster.cluster import Cluster, node_of
from tests.throwaway import Project, wait_for

FLOW = """
    axes:
      i: {range: 6}
    stages:
      work:
        over: [i]
        command: "echo \\"{\\\\\\"square\\\\\\": ${{ i * i }}}\\" > \\"$DIEL_RESULT\\""
        outputs: {square: {value: int}}
        resources: {walltime: 1m}
      total:
        params: {values: "${{ work.square }}"}
        module: total
"""
TOTAL = """
    @diel.module(kind="analysis")
    def total(values: list[int]) -> dict:
        return {"sum": sum(values)}
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
KEEPER = "diel.executors.node"
SITE = """
name: mine
scheduler: slurm
launcher: [srun, --mpi=pmi2, --overlap, "--nodes={{nodes}}", "--ntasks={{ranks}}", "--nodelist={{hosts}}"]
address: 127.0.0.1
poll: 1s
silence: 8s
grace: 5s
controller: {{home: {home}, walltime: {walltime}}}
pools:
  cpu: {{nodes: 2, block_nodes: 2, cores: 4, walltime: 10m, idle: 20s}}
"""


class OnCluster(Project):
    """A project that is run where the cluster's commands are."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.site()

    def environment(self) -> dict[str, str]:
        return self.cluster.environment

    def site(self, home: str = "job", walltime: str = "30m", **pool: str) -> None:
        """Writes the site file, with more keys for its pool."""
        path = self.folder / "schedulers/mine.yaml"
        path.parent.mkdir(exist_ok=True)
        more = "".join(f"{key}: {value}, " for key, value in pool.items())
        path.write_text(SITE.format(home=home, walltime=walltime).replace("cpu: {", "cpu: {" + more))

    def submit(self, *words: str) -> RunPaths:
        """Submits from a shell that exits at once."""
        command = [sys.executable, "-m", "diel", "submit", "flow.yaml", "--site", "mine", *words]
        done = subprocess.run(
            ["sh", "-c", '"$@"; exit $?', "sh", *command],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return RunPaths(self.newest().root)

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.diel("status", "--json"))
        return document

    def state(self) -> str:
        return str(self.status()["state"])

    def wait_for_state(self, *states: str, seconds: float = 60) -> None:
        wait_for(lambda: self.state() in states, seconds)

    def kill_controller(self) -> None:
        """kill -9, wherever it is."""
        process = psutil.Process(self.status()["controller"]["pid"])
        process.kill()
        psutil.wait_procs([process], timeout=20)

    def block_jobs(self) -> list[str]:
        """The jobs of all blocks that the run ever asked for."""
        return [block["job"] for block in self.status()["blocks"] if block["job"]]

    def keepers(self) -> int:
        """On how many nodes a block of the run has begun."""
        found = 0
        for process in self.cluster.processes():
            with contextlib.suppress(psutil.Error):
                parent = process.parent()
                guard = (
                    parent is not None and KEEPER in parent.cmdline()
                )  # as the keeper, of which it is a fork
                found += KEEPER in process.cmdline() and not guard
        return found

    def jobs(self) -> list[str]:
        """The names of all jobs of the newest run that have not ended."""
        prefix = job_prefix(RunPaths(self.newest().root))
        return sorted(
            j.name for j in self.cluster.squeue() if j.name.startswith(prefix) and j.state != "COMPLETING"
        )

    def assert_nothing_is_left(self) -> None:
        wait_for(lambda: not self.jobs())
        wait_for(lambda: not self.newest().processes() and not self.cluster.processes(), 15)


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[OnCluster]:
    yield OnCluster(tmp_path, cluster)
    cluster.clear()


def gated(project: OnCluster, *words: str) -> RunPaths:
    """Submits the gated workflow, and waits until it is at its tasks."""
    project.workflow(GATED)
    paths = project.submit(*words)
    wait_for((paths.root / "begun").exists, 60)
    return paths


@pytest.mark.campaign  # tests/cluster/test_runs.py compares results from each home
@pytest.mark.parametrize("home", ["login", "job", "inside"])
def test_a_run_is_driven_to_its_end_from_wherever_its_controller_lives(project: OnCluster, home: str) -> None:
    project.workflow(FLOW).module("total", TOTAL)
    paths = project.submit("--home", home)
    project.wait_for_state("succeeded", "failed", "interrupted")
    status = project.status()
    assert status["state"] == "succeeded", paths.controller_log.read_text()
    assert status["controller"]["home"] == home
    assert project.newest().value("total", "sum") == 55
    project.assert_nothing_is_left()


def test_a_job_hands_its_run_over_before_its_walltime_ends(
    project: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks go on meanwhile: none is begun twice, and the run never looks interrupted."""
    project.workflow(GATED).site(walltime="24s")
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
    project.wait_for_state("succeeded", "failed", "interrupted")
    assert project.state() == "succeeded", paths.controller_log.read_text()
    assert seen <= {"pending", "running"}
    run = project.newest()
    assert [len(run.attempts("wait", index)) for index in range(4)] == [1] * 4
    project.assert_nothing_is_left()  # no successor either


HOMES = tuple(("submit", "--home", home) for home in ("login", "job", "inside"))


@pytest.mark.parametrize(
    ("wrong", "commands", "said"),
    [
        ({"queue": "nowhere"}, (*HOMES, ("run",)), "invalid partition specified: nowhere"),
        # Told only of a job that is queued.
        (
            {"options": "[--time=2-00:00:00]"},
            (HOMES[0], HOMES[2], ("run",)),
            "would wait for ever: Partition",
        ),
    ],
)
def test_what_the_scheduler_does_not_take_is_refused_and_nothing_is_made(
    project: OnCluster, wrong: dict[str, str], commands: tuple[tuple[str, ...], ...], said: str
) -> None:
    project.workflow(FLOW.partition("      total:")[0]).site(**wrong)
    for words in commands:
        told = project.diel(*words, "flow.yaml", "--site", "mine", code=2)
        assert said in told, told
        assert "correct the site file" in told
        assert not (project.folder / "runs").exists()
        assert project.cluster.squeue() == []


def waiting(project: OnCluster) -> tuple[str, str]:
    """A run whose controller was killed while its block waited in the queue: the jobs in its way, and the
    block's.
    """
    blocker = project.cluster.sbatch("sleep 300", "-N4", "--exclusive")
    project.cluster.wait_for(blocker, "RUNNING")
    project.workflow(FLOW.partition("      total:")[0])
    project.submit("--home", "login")
    wait_for(project.block_jobs)
    project.kill_controller()
    (job,) = project.block_jobs()
    return blocker, job


def test_a_block_that_waits_in_the_queue_keeps_its_place_when_its_controller_goes(project: OnCluster) -> None:
    blocker, job = waiting(project)
    assert project.state() == "interrupted"
    project.diel("resume")
    wait_for(lambda: "pending" in project.diel("explain", "work"))
    project.cluster.scancel(blocker)
    project.wait_for_state("succeeded", "failed", "interrupted")
    assert project.state() == "succeeded", RunPaths(project.newest().root).controller_log.read_text()
    assert project.block_jobs() == [job]
    project.assert_nothing_is_left()


def test_a_block_that_begins_without_a_controller_waits_for_the_next_one(project: OnCluster) -> None:
    blocker, job = waiting(project)
    project.cluster.scancel(blocker)
    project.cluster.wait_for(job, "RUNNING")
    wait_for(lambda: project.keepers() == 2)
    project.diel("resume")
    project.wait_for_state("succeeded", "failed", "interrupted")
    assert project.state() == "succeeded", RunPaths(project.newest().root).controller_log.read_text()
    assert project.block_jobs() == [job]
    project.assert_nothing_is_left()


def test_nodes_go_over_to_the_next_controller_when_their_tasks_have_ended(project: OnCluster) -> None:
    """Twelve tasks on eight cores: four of them begin in what their first controller asked for."""
    text = GATED.replace("range: 4", "range: 12").partition("      after:")[0]
    project.workflow(text)
    paths = project.submit("--home", "login")
    run = project.newest()
    wait_for(lambda: len(run.records("start")) == 8, 60)
    (job,) = project.block_jobs()
    project.kill_controller()
    project.diel("resume")
    project.wait_for_state("running")
    (paths.root / "go").touch()
    project.wait_for_state("succeeded", "failed", "interrupted")
    assert project.state() == "succeeded", paths.controller_log.read_text()
    assert project.block_jobs() == [job]
    assert [len(run.attempts("wait", index)) for index in range(12)] == [1] * 12
    assert {block["epoch"] for block in project.status()["blocks"]} == {2}
    project.assert_nothing_is_left()


def test_a_waiting_block_that_would_be_asked_for_otherwise_is_given_back(project: OnCluster) -> None:
    blocker, job = waiting(project)
    path = project.folder / "schedulers/mine.yaml"
    path.write_text(path.read_text().replace("walltime: 10m", "walltime: 9m"))
    project.diel("resume", "--site", "mine")
    wait_for(lambda: len(project.block_jobs()) == 2)
    project.cluster.wait_for(job, "CANCELLED")
    project.cluster.scancel(blocker)
    project.wait_for_state("succeeded", "failed", "interrupted")
    assert project.state() == "succeeded", RunPaths(project.newest().root).controller_log.read_text()
    project.assert_nothing_is_left()


def test_while_its_job_waits_a_run_is_pending_and_can_be_taken_back(project: OnCluster) -> None:
    project.workflow(FLOW).module("total", TOTAL)
    blocker = project.cluster.sbatch("sleep 300", "-N4", "--exclusive")
    project.cluster.wait_for(blocker, "RUNNING")
    project.submit()
    status = project.status()
    assert (status["state"], status["controller"]["awaited"]) == ("pending", True)
    job = status["controller"]["job"]
    assert f"asked for as job {job}" in project.diel("status")
    assert f"waits for its controller, job {job} (pending" in project.diel("resume", code=2)
    assert f"had not come yet (job {job})" in project.diel("cancel")
    assert project.cluster.state(job) == "CANCELLED"
    assert project.state() == "cancelled"


@pytest.mark.campaign  # tests/cluster/test_faults.py has it for `job`
@pytest.mark.parametrize("home", ["job", "inside"])
def test_a_killed_controller_is_replaced_in_its_home_by_resume(project: OnCluster, home: str) -> None:
    paths = gated(project, "--home", home)
    project.kill_controller()
    assert project.state() == "interrupted"
    (paths.root / "go").touch()
    assert "job " in project.diel("resume")
    project.wait_for_state("succeeded", "failed", "interrupted")
    assert project.state() == "succeeded", paths.controller_log.read_text()
    assert project.status()["controller"]["home"] == home
    project.assert_nothing_is_left()


@pytest.mark.campaign  # tests/cluster/test_faults.py cancels in each home
@pytest.mark.parametrize("home", ["login", "job", "inside"])
def test_cancelling_leaves_no_job_and_no_process_though_the_controller_was_killed(
    project: OnCluster, home: str
) -> None:
    gated(project, "--home", home)
    wait_for(lambda: {node_of(process) for process in project.cluster.processes()} >= {"n1"})
    project.kill_controller()
    assert "its controller was gone" in project.diel("cancel", seconds=120)
    assert project.state() == "cancelled"
    project.assert_nothing_is_left()


def test_an_allocation_that_ends_leaves_an_interrupted_run(project: OnCluster) -> None:
    paths = gated(project, "--home", "inside")
    project.cluster.scancel(project.status()["controller"]["job"])
    project.wait_for_state("interrupted")
    project.assert_nothing_is_left()
    (paths.root / "go").touch()
    project.diel("resume")
    project.wait_for_state("succeeded", "failed")
    assert project.state() == "succeeded", paths.controller_log.read_text()
