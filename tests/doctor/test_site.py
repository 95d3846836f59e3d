"""`diel doctor --site X` for a site with a scheduler: on a real Slurm, with a job that really looks round."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from diel.doctor import machine
from tests.cli.call import call
from tests.cluster.cluster import Cluster
from tests.throwaway import wait_for

Capture = pytest.CaptureFixture[str]
SITE = """\
name: own
scheduler: slurm
address: 127.0.0.1
poll: 1s
pools:
  cpu: {cores: 4}
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that says nothing about sites: LAMMPS and graphviz take a second."""
    monkeypatch.setattr(machine, "find_program", lambda name: None)
    monkeypatch.setattr("diel.doctor.machine.check_dot", machine.check_lammps)


@pytest.fixture
def slurm(cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster, idle, in this process's environment; the current directory is empty."""
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, cluster.environment[name])
    cluster.clear()
    return cluster


def doctor(capsys: Capture, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    said = call(capsys, "doctor", "--json", *words)
    assert said.code == code, said.out + said.err
    return {check["name"]: check for check in json.loads(said.out)["checks"]}


def write(text: str = SITE) -> str:
    Path("own.yaml").write_text(text)
    return "own.yaml"


def nothing_is_left(slurm: Cluster) -> bool:
    return not slurm.squeue() and not list(Path().glob(".diel-doctor-*"))


def test_a_site_is_checked_without_submitting_anything(slurm: Cluster, capsys: Capture) -> None:
    found = doctor(capsys, "--site", str(slurm.site("virtual")))
    for name in ("account", "commands", "scheduler", "queues", "nodes", "privacy"):
        assert found[name]["ok"], found[name]
    assert found["scheduler"]["found"].startswith("slurm")
    assert not any(name.endswith(": job") for name in found)
    assert slurm.squeue() == []


def test_a_job_in_each_pool_reports_back_and_nothing_is_left(slurm: Cluster, capsys: Capture) -> None:
    found = doctor(capsys, "--site", str(slurm.site("virtual")), "--job", "--wait", "60s")
    for pool in ("cpu", "small", "spot", "gpu"):
        for what in ("job", "python", "packages", "files", "clock", "network", "node", "run"):
            assert found[f"{pool}: {what}"]["ok"], found[f"{pool}: {what}"]
    assert sys.executable in found["cpu: python"]["found"]
    assert "CUDA_VISIBLE_DEVICES" in found["gpu: node"]["found"]
    assert "127.0.0.1" in found["cpu: network"]["found"]
    assert "two MPI ranks met" in found["cpu: run"]["found"]
    assert nothing_is_left(slurm)


def test_a_pool_where_no_worker_starts_and_ranks_that_do_not_meet_are_not_ready(
    slurm: Cluster, capsys: Capture
) -> None:
    Path("apart.yaml").write_text(
        "extends: own\nlauncher: [srun, --mpi=none, --overlap, '--ntasks={ranks}']\n"
    )
    write()
    found = doctor(capsys, "--site", "apart.yaml", "--job", code=1)
    assert found["cpu: job"]["ok"]
    assert "two ranks did not meet: 2 ranks do not form one world" in found["cpu: run"]["found"]
    assert "srun --mpi=none" in found["cpu: run"]["found"]
    assert "write --mpi=pmi2" in found["cpu: run"]["found"]
    Path("still.yaml").write_text("extends: own\nspread: [sh, -c, 'echo no nodes today >&2; exit 3']\n")
    found = doctor(capsys, "--site", "still.yaml", "--job", code=1)
    assert found["cpu: job"]["ok"]
    assert "no worker took a task" in found["cpu: run"]["found"]
    assert nothing_is_left(slurm)


def test_a_python_that_nodes_lack_is_told_with_what_the_job_printed(
    slurm: Cluster, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.doctor.trial.LAG", 0.5)
    monkeypatch.setattr("diel.doctor.trial.sys", type("S", (), {"executable": "/no/such/python"}))
    monkeypatch.setattr("diel.doctor.trial.PYTHON", ("/no/such/python", "-P"))
    found = doctor(capsys, "--site", write(), "--job", code=1)["cpu: job"]
    assert "without a report" in found["found"]
    assert "/no/such/python" in found["found"]
    assert "install diel on a file system that they share" in found["fix"]


def test_an_interrupted_doctor_leaves_no_job_behind(slurm: Cluster, root: Path) -> None:
    slurm.wait_for(slurm.sbatch("sleep 60", "-N4", "--exclusive"), "RUNNING")
    words = [sys.executable, "-m", "diel", "doctor", "--site", write(), "--job"]
    env = {**slurm.environment, "PYTHONPATH": str(root)}
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "is pending" not in (line := process.stderr.readline()):
        assert line
    assert len(slurm.squeue()) == 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130
    process.stderr.close()
    wait_for(lambda: len(slurm.squeue()) == 1)
    assert [job.name for job in slurm.squeue()] == ["wrap"]
    slurm.clear()
    assert nothing_is_left(slurm)


# --- without a scheduler ---------------------------------------------------------------------------


def test_a_trial_job_needs_a_site_with_a_scheduler(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "doctor", "--job")
    assert said.code == 2
    assert "site 'local' has no scheduler to take a job" in said.err


def test_a_pool_without_a_job_or_of_another_name_is_refused(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "doctor", "--site", write(), "--pool", "cpu")
    assert (said.code, "add --job" in said.err) == (2, True)
    said = call(capsys, "doctor", "--site", write(), "--job", "--pool", "cpus")
    assert (said.code, "did you mean 'cpu'?" in said.err) == (2, True)


@pytest.mark.parametrize("wait", ["5", "soon"])
def test_a_time_to_wait_has_a_unit(workspace: Path, capsys: Capture, wait: str) -> None:
    said = call(capsys, "doctor", "--site", write(), "--job", "--wait", wait)
    assert said.code == 2
    assert "--wait" in said.err


def test_without_an_account_that_is_wanted_no_job_is_submitted(
    workspace: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    found = doctor(capsys, "--site", "perlmutter", "--job", code=1)
    assert "DIEL_ACCOUNT=NAME" in found["account"]["fix"]
    assert found["job"]["found"] == "not submitted"
    assert "account" in found["job"]["fix"]
    monkeypatch.setenv("DIEL_ACCOUNT", "m1")
    assert doctor(capsys, "--site", "perlmutter", code=1)["account"]["ok"]
