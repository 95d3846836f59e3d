"""Nodes of one allocation, handed out to blocks: real child processes, first come first served."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from diel.site.scheduler import Job, JobState, JobStatus, SchedulerBusy, SchedulerRefused, scheduler_named
from diel.site.scheduler import allocation as module
from diel.site.scheduler.allocation import END, AllocationScheduler, inside_here
from tests.descendants import alive
from tests.throwaway import wait_for

HOUR = 3600.0


class Allocation:
    """Three nodes, and jobs on them whose scripts wait for a file."""

    def __init__(self, folder: Path, outer: str = "slurm", end: float = HOUR) -> None:
        self.folder = folder
        self.scheduler = AllocationScheduler(
            scheduler_named(outer), ("n1", "n2", "n3"), "77", time.time() + end
        )

    def submit(self, name: str, command: str = "", nodes: int = 1, walltime: float = HOUR) -> str:
        command = command or f"while [ ! -e {self.folder}/{name}.go ]; do sleep 0.02; done"
        out, err = self.folder / f"{name}.out", self.folder / f"{name}.err"
        job = Job(f"diel-{name}", command, self.folder, out, err, nodes, 4, walltime, setup=("echo set up",))
        script = self.folder / f"{name}.sh"
        script.write_text(self.scheduler.script(job))
        return self.scheduler.submit(script)

    def let(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()

    def status(self, number: str) -> JobStatus:
        return self.scheduler.query([number])[number]

    def ended(self, number: str) -> JobStatus:
        wait_for(lambda: self.status(number).state.ended)
        return self.status(number)

    def out(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()


@pytest.fixture
def allocation(tmp_path: Path) -> Iterator[Allocation]:
    found = Allocation(tmp_path)
    yield found
    found.scheduler.close()


def test_a_job_runs_on_free_nodes_at_once_and_its_end_is_told(allocation: Allocation) -> None:
    number = allocation.submit("a", nodes=2)
    assert number == "77.1"
    assert allocation.status(number) == JobStatus(JobState.RUNNING, "", None, "n1,n2")
    allocation.let("a")
    assert allocation.ended(number) == JobStatus(JobState.COMPLETED, "", 0, "n1,n2")
    assert allocation.out("a") == "set up\n"


def test_jobs_begin_in_their_order_as_nodes_become_free(allocation: Allocation) -> None:
    first = allocation.submit("first", nodes=2)
    large = allocation.submit("large", nodes=3)
    small = allocation.submit("small", nodes=1)
    assert allocation.status(large).state is JobState.PENDING
    assert allocation.status(large).reason == "waits for 3 nodes of the allocation; 1 are free"
    assert allocation.status(small).state is JobState.PENDING  # it does not overtake the large one
    allocation.let("first")
    allocation.ended(first)
    wait_for(lambda: allocation.status(large).state is JobState.RUNNING)
    assert allocation.status(large).nodes == "n1,n2,n3"
    allocation.let("large")
    allocation.ended(large)
    wait_for(lambda: allocation.status(small).state is JobState.RUNNING)


def test_a_script_sees_its_own_nodes_alone(allocation: Allocation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-3]")
    monkeypatch.setenv("SLURM_NTASKS", "12")
    allocation.submit("other")
    names = [
        "DIEL_NODES",
        "DIEL_NODE_NUMBERS",
        "SLURM_NODELIST",
        "SLURM_JOB_NODELIST",
        "SLURM_NNODES",
        "SLURM_NTASKS",
    ]
    command = "echo " + " ".join(f'"{name}=${name}"' for name in names)
    allocation.ended(allocation.submit("a", command, nodes=2))
    told = allocation.out("a").splitlines()[1]
    assert told == (
        "DIEL_NODES=n2,n3 DIEL_NODE_NUMBERS=1 2 SLURM_NODELIST=n2,n3 SLURM_JOB_NODELIST=n2,n3 "
        "SLURM_NNODES=2 SLURM_NTASKS="
    )


def test_under_pbs_a_script_gets_a_node_file_of_its_own(tmp_path: Path) -> None:
    allocation = Allocation(tmp_path, "pbs")
    allocation.ended(allocation.submit("a", 'cat "$PBS_NODEFILE"', nodes=2))
    assert allocation.out("a") == "set up\nn1\nn2\n"


@pytest.mark.parametrize(
    ("outer", "program", "calls"),
    [
        ("slurm", "srun", ["--nodelist=n2,n3 sh -c echo $1 x two words"]),
        ("pbs", "pbsdsh", ["-n 1 -- sh -c echo $1 x two words", "-n 2 -- sh -c echo $1 x two words"]),
    ],
)
def test_the_words_that_reach_each_node_name_the_jobs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outer: str, program: str, calls: list[str]
) -> None:
    fake = tmp_path / "bin" / program
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/calls\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    allocation = Allocation(tmp_path, outer)
    allocation.submit("other")
    words = [word.replace("{nodes}", "2") for word in allocation.scheduler.spread]
    quoted = " ".join(
        "'" + word.replace("'", "'\\''") + "'" for word in [*words, "sh", "-c", "echo $1", "x", "two words"]
    )
    allocation.ended(allocation.submit("a", quoted, nodes=2))
    told = sorted((tmp_path / "calls").read_text().splitlines())
    assert all(line.endswith(call) for line, call in zip(told, calls, strict=True)), told
    if outer == "slurm":
        assert "--nodes=2 --ntasks=2" in told[0]
    allocation.scheduler.close()


@pytest.mark.parametrize(
    ("command", "state", "code", "reason"),
    [
        ("exit 3", JobState.FAILED, 3, "exit code 3"),
        ("kill -9 $$", JobState.FAILED, -9, "killed by signal 9"),
        ("true", JobState.COMPLETED, 0, ""),
    ],
)
def test_how_a_job_ended_is_told(
    allocation: Allocation, command: str, state: JobState, code: int, reason: str
) -> None:
    assert allocation.ended(allocation.submit("a", command)) == JobStatus(state, reason, code, "n1")


def test_cancelling_ends_a_job_and_all_that_came_of_it(allocation: Allocation, tmp_path: Path) -> None:
    """A child that made a session of its own and ends later than the script; one that waits never begins."""
    slow = f"trap 'sleep 0.3; exit' TERM; touch {tmp_path}/ready; while true; do sleep 0.05; done"
    command = f'setsid sh -c "{slow}" & echo $! > {tmp_path}/pid; wait'
    number = allocation.submit("a", command, nodes=3)
    waiting = allocation.submit("b")
    wait_for((tmp_path / "ready").exists)
    child = psutil.Process(int((tmp_path / "pid").read_text()))
    allocation.scheduler.cancel([waiting, number, "77.9", "12"])
    assert allocation.ended(number).state is JobState.CANCELLED
    assert not alive(child)
    assert allocation.status(waiting).state is JobState.CANCELLED
    assert not (tmp_path / "b.out").exists()


def test_what_does_not_listen_is_killed(
    allocation: Allocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.2)
    command = f"trap '' TERM; touch {tmp_path}/deaf; while true; do sleep 0.05; done"
    number = allocation.submit("a", command)
    wait_for((tmp_path / "deaf").exists)
    allocation.scheduler.cancel([number])
    assert allocation.ended(number).state is JobState.CANCELLED


def test_a_job_lasts_no_longer_than_it_asked_for(allocation: Allocation) -> None:
    ended = allocation.ended(allocation.submit("a", walltime=0.3))
    assert (ended.state, ended.reason) == (JobState.TIMEOUT, "its walltime is over")


def test_no_job_outlives_the_allocation_or_begins_at_its_end(tmp_path: Path) -> None:
    short = Allocation(tmp_path, end=module.KEPT + 0.5)
    number = short.submit("a")
    assert short.ended(number).state is JobState.TIMEOUT
    with pytest.raises(SchedulerRefused, match="the allocation is at its end"):
        short.submit("b")


def test_what_the_allocation_cannot_hold_is_refused(allocation: Allocation) -> None:
    with pytest.raises(SchedulerRefused, match="4 nodes does not fit into an allocation of 3"):
        allocation.submit("a", nodes=4)


def test_jobs_of_an_earlier_allocation_are_gone(allocation: Allocation) -> None:
    number = allocation.submit("a")
    assert set(allocation.scheduler.query([number, "76.1"])) == {number}


def test_jobs_are_found_by_how_their_names_begin(allocation: Allocation) -> None:
    running = allocation.submit("a1", nodes=3)
    waiting = allocation.submit("a2")
    allocation.submit("b")
    assert allocation.scheduler.find("diel-a") == {"diel-a1": running, "diel-a2": waiting}
    allocation.let("a1")
    allocation.ended(running)
    assert allocation.scheduler.find("diel-a") == {"diel-a2": waiting}


def test_closing_ends_all(tmp_path: Path) -> None:
    allocation = Allocation(tmp_path)
    numbers = [allocation.submit(name) for name in "abcd"]
    allocation.scheduler.close()
    assert {allocation.ended(number).state for number in numbers} == {JobState.CANCELLED}


# --- the allocation -------------------------------------------------------------------------------


def test_the_nodes_of_a_pbs_allocation_are_each_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nodes").write_text("x1\nx1\nx2\nx2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    monkeypatch.setenv(END, str(time.time() + 60))
    found = inside_here(scheduler_named("pbs"))
    assert found is not None
    assert found.size == 2
    monkeypatch.delenv("PBS_NODEFILE")
    with pytest.raises(SchedulerBusy):
        inside_here(scheduler_named("pbs"))


@pytest.mark.skipif(not Path("/usr/bin/scontrol").exists(), reason="needs Slurm's scontrol")
def test_the_nodes_of_a_slurm_allocation_are_those_that_scontrol_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=x\nSlurmctldHost=x\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-3,7]")
    assert scheduler_named("slurm").allocation() == ["n1", "n2", "n3", "n7"]
    monkeypatch.setenv("SLURM_JOB_NODELIST", "")
    monkeypatch.setenv(END, str(time.time() + 60))
    with pytest.raises(SchedulerBusy, match="not in an allocation"):
        inside_here(scheduler_named("slurm"))


def test_only_a_controller_inside_an_allocation_hands_out_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inside_here(scheduler_named("pbs")) is None
    (tmp_path / "nodes").write_text("x1\n")
    for name, value in {
        END: str(time.time() + 60),
        "PBS_NODEFILE": str(tmp_path / "nodes"),
        "PBS_JOBID": "5.s",
    }.items():
        monkeypatch.setenv(name, value)
    found = inside_here(scheduler_named("pbs"))
    assert found is not None
    assert 30 < found.remaining < 60


def test_a_script_is_plain_to_read(tmp_path: Path) -> None:
    job = Job("diel-a", "work", tmp_path / "my run", tmp_path / "o", tmp_path / "e", 2, 4, 60.0)
    text = Allocation(tmp_path).scheduler.script(job)
    assert text.splitlines()[:4] == ["#!/bin/bash", "#DIEL name=diel-a", "#DIEL nodes=2", "#DIEL walltime=60"]
    assert f"cd '{tmp_path}/my run'" in text
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
