"""Torque: the text of its scripts, and answers of its qstat, its own and Slurm's."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.site.scheduler import Job, JobState, NodeKind, SchedulerBusy
from diel.site.scheduler.scheduler import Answer
from diel.site.scheduler.torque import Torque, parse_nodes
from tests.scheduler.edges import first_on_path, programs

FOLDER = Path("/scratch/runs/melt-1")
SCRIPT = """\
#!/bin/bash
#PBS -N d-melt-1.3
#PBS -S /bin/bash
#PBS -o 3.out
#PBS -e 3.err
#PBS -q batch
#PBS -A m1234
#PBS -l nodes=4:ppn=64:gpus=2
#PBS -l mem=20484mb
#PBS -l walltime=25:01:02
#PBS -W depend=afterany:4711
#PBS -r n
cd /scratch/runs/melt-1 || exit 1
# The number of cores of a node, which is not that of a task.
unset OMP_NUM_THREADS NCPUS
exec /opt/python -m block 'a b'
"""
OF_SLURM = """\
Job Id:\t12
\tJob_Name = d-1
\tJob_Owner = root@vm
\tinteractive = True
\tjob_state = R
\tqueue = main
\tqtime = Sat Nov 21 14:11:31 2026
\texec_host = n1/2+n2/2
\tPriority = 4294901759

Job Id:\t13
\tJob_Name = d-2
\tJob_Owner = root@vm
\tjob_state = C
\tqueue = main

"""
OF_TORQUE = """\
Job Id: 12.master.example.org
    Job_Name = d-1
    Job_Owner = ann@login1
    job_state = C
    queue = batch
    exec_host = node7/0-3
    exit_status = -11
    Variable_List = PBS_O_QUEUE=batch,PBS_O_HOME=/data/ann,
\tPBS_O_PATH=/usr/bin:/bin,job_state = X,
\tPBS_O_WORKDIR=/scratch
    comment = Job started on Sat Nov 21 at 14:11 and was ended for its wa
\tlltime

"""


def test_the_script_holds_all_that_a_job_asks_for() -> None:
    job = Job(
        name="d-melt-1.3",
        command="exec /opt/python -m block 'a b'",
        folder=FOLDER,
        stdout=FOLDER / "3.out",
        stderr=FOLDER / "3.err",
        nodes=4,
        cores=64,
        walltime=90061.2,
        gpus=2,
        memory=5 * 2**30 + 1,
        queue="batch",
        account="m1234",
        exclude=("n7",),
        after="4711",
    )
    assert Torque().script(job) == SCRIPT


def test_slurms_qstat_is_read() -> None:
    told = {number: Torque().status(job) for number, job in Torque().parse_qstat(Answer(0, OF_SLURM, ""))}
    assert (told["12"].state, told["12"].nodes) == (JobState.RUNNING, "n1,n2")


def test_a_job_that_ended_without_an_exit_status_is_gone_and_never_a_success() -> None:
    told = {number: Torque().status(job) for number, job in Torque().parse_qstat(Answer(0, OF_SLURM, ""))}
    assert (told["13"].state, told["13"].exit_code) == (JobState.GONE, None)
    assert told["13"].reason


def test_torques_qstat_is_read_with_its_broken_lines() -> None:
    ((number, job),) = Torque().parse_qstat(Answer(0, OF_TORQUE, ""))
    status = Torque().status(job)
    assert number == "12.master.example.org"
    assert (status.state, status.nodes) == (JobState.TIMEOUT, "node7")
    assert "was ended for its walltime" in status.reason
    assert job["Variable_List"].endswith("PBS_O_WORKDIR=/scratch")


@pytest.mark.parametrize(
    ("code", "state", "own"),
    [
        ("0", JobState.COMPLETED, 0),
        ("2", JobState.FAILED, 2),
        ("271", JobState.CANCELLED, 143),
        ("-10", JobState.OOM, None),
        ("-11", JobState.TIMEOUT, None),
        ("-3", JobState.NODE_FAILED, None),
    ],
)
def test_an_exit_status_says_how_a_job_ended(code: str, state: JobState, own: int | None) -> None:
    status = Torque().status({"job_state": "C", "exit_status": code})
    assert (status.state, status.exit_code) == (state, own)


@pytest.mark.parametrize(
    ("letter", "state"),
    [
        ("Q", JobState.PENDING),
        ("H", JobState.PENDING),
        ("R", JobState.RUNNING),
        ("E", JobState.ENDING),
        ("U", JobState.GONE),
        ("?", JobState.RUNNING),
    ],
)
def test_a_letter_of_torque_is_one_of_diels_states(letter: str, state: JobState) -> None:
    assert Torque().status({"job_state": letter}).state is state


def test_ids_match_with_and_without_the_servers_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "answer").write_text(OF_TORQUE, encoding="utf-8")
    monkeypatch.setenv(
        "PATH", first_on_path(programs(tmp_path / "fakes", f"cat '{tmp_path}/answer'; exit 153"))
    )
    assert set(Torque().query(["12.master", "14.master"])) == {"12.master"}


@pytest.mark.parametrize(
    "text", ["<html>\n", "Job Id: 12.master\n    Job_Name = d-1\n", OF_SLURM + "Killed\n"]
)
def test_an_answer_that_is_broken_is_no_answer(text: str) -> None:
    with pytest.raises(SchedulerBusy):
        Torque().parse_qstat(Answer(0, text, ""))


@pytest.mark.parametrize("code", [1, 2, 111, 255, -9])
def test_a_server_that_does_not_answer_is_busy(code: int) -> None:
    with pytest.raises(SchedulerBusy, match="Connection refused"):
        Torque().parse_qstat(
            Answer(code, "", "qstat: cannot connect to server master (errno=111) Connection refused")
        )


def test_nodes_of_torque_are_counted_by_their_shape() -> None:
    text = (
        "n1\n     state = free\n     np = 16\n     gpus = 2\n     status = physmem=65000000kb,ncpus=32\n\n"
        "n2\n     state = free\n     np = 16\n     gpus = 2\n     status = physmem=65000000kb,ncpus=32\n\n"
        "n3\n     state = down\n"
    )
    assert parse_nodes(text) == [NodeKind("", 2, 16, 16, 65000000 * 1024, 2)]
