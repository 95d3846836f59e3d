"""The virtual Slurm itself: what tests on it rely on, and that it leaves nothing behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.site import find_site
from tests.cluster.cluster import Cluster, clean_up, new_folder, node_of
from tests.cluster.daemon import ClusterError, wait_until
from tests.cluster.sites import site_texts
from tests.descendants import alive

RANKS = """\
import os
from mpi4py import MPI
nodes = MPI.COMM_WORLD.gather(os.environ["SLURMD_NODENAME"])
if nodes:
    print("ranks on", *nodes)
"""
MELT = """\
units lj
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
run 20
"""


@pytest.fixture
def idle(cluster: Cluster) -> Iterator[Cluster]:
    """The session's cluster, idle before and after."""
    cluster.clear()
    yield cluster
    cluster.clear()


def output(cluster: Cluster, folder: Path, script: str, *words: str) -> str:
    """What a job prints."""
    path = folder / "output"
    id = cluster.sbatch(script, f"--output={path}", *words)
    cluster.wait_for(id, "COMPLETED", "FAILED", seconds=120)
    said = path.read_text(encoding="utf-8")
    assert cluster.state(id) == "COMPLETED", said
    return said


def test_a_program_runs_on_three_nodes(idle: Cluster) -> None:
    said = idle.run("srun", "--nodes=3", "sh", "-c", "echo $SLURMD_NODENAME")
    assert sorted(said.split()) == ["n1", "n2", "n3"]


def test_a_job_on_an_idle_cluster_starts_at_once(idle: Cluster, tmp_path: Path) -> None:
    began = time.time()
    waited = float(output(idle, tmp_path, "date +%s.%N")) - began
    assert waited < 20


def test_a_job_gets_the_numbers_of_its_gpus(idle: Cluster, tmp_path: Path) -> None:
    both = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES $ZE_AFFINITY_MASK"
    assert output(idle, tmp_path, both, "--gres=gpu:2").split() == ["n4", "0,1", "0,1", "0,1"]
    first = idle.sbatch("sleep 60", "--gres=gpu:1")
    idle.wait_for(first, "RUNNING")
    assert output(idle, tmp_path, "echo $CUDA_VISIBLE_DEVICES", "--gres=gpu:1").split() == ["1"]


def test_a_job_in_main_preempts_one_in_spot(idle: Cluster) -> None:
    spot = idle.sbatch("sleep 60", "--partition=spot", "--nodes=4", "--exclusive")
    idle.wait_for(spot, "RUNNING")
    main = idle.sbatch("sleep 60", "--nodes=2", "--exclusive")
    idle.wait_for(spot, "PREEMPTED")
    idle.wait_for(main, "RUNNING")


@pytest.mark.campaign  # the faults of runs kill a slurmd as well
def test_a_job_on_a_node_without_slurmd_fails_though_its_processes_live(idle: Cluster) -> None:
    id = idle.sbatch("srun sleep 60", "--nodelist=n2")
    idle.wait_for(id, "RUNNING")
    wait_until(lambda: "sleep" in [process.name() for process in idle.processes()], 60)
    idle.kill_slurmd("n2")
    idle.wait_for(id, "NODE_FAIL", seconds=90)
    assert {node_of(process) for process in idle.processes()} == {"n2"}
    idle.kill_node("n2")
    assert not idle.processes()
    idle.start_slurmd("n2")
    assert set(idle.nodes().values()) == {"idle"}


@pytest.mark.parametrize("way", ["stop", "end"])
def test_without_its_controller_slurm_does_not_answer_and_jobs_go_on(idle: Cluster, way: str) -> None:
    getattr(idle, f"{way}_controller")()
    with pytest.raises(ClusterError, match=r"slurm_load_jobs|slurm controller|Socket timed out"):
        idle.squeue()
    idle.continue_controller()
    assert idle.squeue() == []
    idle.wait_for_nodes()


def test_a_process_that_made_its_own_session_survives_scancel(idle: Cluster, tmp_path: Path) -> None:
    """So does it at sites without control groups; diel has to find it by itself."""
    id = idle.sbatch(f"(setsid sleep 60 & echo $! > {tmp_path}/pid); sleep 60")
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 60)
    wait_until(lambda: len([p for p in idle.processes() if p.name() == "sleep"]) == 2, 60)
    idle.scancel(id)
    wait_until(lambda: len(idle.running()) == 6 + 1, 60)
    (left,) = idle.processes()
    assert left.cmdline() == ["sleep", "60"]


@pytest.mark.parametrize(
    "launcher",
    [
        [
            "srun",
            "--mpi=pmi2",
            "--overlap",
            "--kill-on-bad-exit=1",
            "--nodes=2",
            "--ntasks=2",
            "--ntasks-per-node=1",
            "--nodelist=n2,n3",
        ],
        ["mpiexec", "-n", "2", "-hosts", "n2,n3"],
    ],
    ids=["srun", "mpiexec"],
)
def test_mpi_programs_run_from_inside_a_step(idle: Cluster, tmp_path: Path, launcher: list[str]) -> None:
    """diel's workers are a step on every node; their MPI tasks are steps beside it, from any node."""
    pytest.importorskip("mpi4py", reason="needs mpi4py, of the extra `examples`")
    (tmp_path / "ranks.py").write_text(RANKS, encoding="utf-8")
    (tmp_path / "melt.in").write_text(MELT, encoding="utf-8")
    words = " ".join(launcher)
    lines = [
        "[ $SLURMD_NODENAME = n2 ] || exit 0",
        f"{words} {sys.executable} ranks.py",
        f"{words} lmp -in melt.in -log none",
    ]
    (tmp_path / "task.sh").write_text("\n".join(lines), encoding="utf-8")
    step = "srun --overlap --ntasks-per-node=1 --mpi=none sh task.sh"
    said = output(idle, tmp_path, step, "--nodelist=n1,n2,n3", "--exclusive", f"--chdir={tmp_path}")
    assert "ranks on n2 n3" in said
    assert "MPI processor grid" in said
    assert "Loop time of" in said
    assert "on 2 procs" in said


def test_torques_commands_work(idle: Cluster, tmp_path: Path) -> None:
    if shutil.which("qsub", path=idle.environment["PATH"]) is None:
        pytest.skip("needs the Debian package slurm-wlm-torque")
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\necho $SLURM_JOB_NODELIST $SLURM_TASKS_PER_NODE\nsleep 60\n", encoding="utf-8"
    )
    out, err = str(tmp_path / "out"), str(tmp_path / "err")
    size = "nodes=2:ppn=4,walltime=00:05:00"
    id = idle.run("qsub", "-N", "name", "-q", "main", "-l", size, "-o", out, "-e", err, str(script)).strip()
    idle.wait_for(id, "RUNNING")
    wait_until(lambda: Path(out).exists() and Path(out).read_text(), 60)
    assert Path(out).read_text(encoding="utf-8").split() == ["n[1-2]", "4(x2)"]
    assert "job_state = R" in idle.run("qstat", "-f", id)
    idle.run("qdel", id)
    idle.wait_for(id, "CANCELLED")


def test_its_site_files_are_sites(cluster: Cluster, tmp_path: Path) -> None:
    sites = {name: find_site(str(cluster.site(name)), tmp_path) for name in site_texts()}
    assert {name: site.name for name, site in sites.items()} == {name: name for name in sites}
    homes = {name: site.controller.home for name, site in sites.items()}
    assert homes == {
        "virtual": "login",
        "virtual_job": "job",
        "virtual_inside": "inside",
        "virtual_torque": "login",
    }
    assert sites["virtual_torque"].scheduler == "torque"


def test_a_second_cluster_comes_and_goes_beside_the_first(idle: Cluster) -> None:
    mine = idle.sbatch("sleep 60")
    folder = new_folder()
    up = command("up", str(folder))
    assert f"export SLURM_CONF={folder}/slurm.conf" in up.stdout, up.stderr
    second = Cluster(folder)
    try:
        # What is left over after its jobs, and in sessions of their own, goes as well.
        second.sbatch("(setsid sleep 60 &); srun sleep 60", "--nodes=4", "--exclusive")
        wait_until(lambda: len([p for p in second.processes() if p.name() == "sleep"]) == 5, 60)
        everything = second.running()
        down = command("down", str(folder))
        assert down.returncode == 0, down.stderr
        assert not folder.exists()
        assert not [process for process in everything if alive(process)]
    finally:
        second.down()
    idle.wait_for(mine, "RUNNING")


def test_the_cluster_of_a_killed_process_is_taken_down_by_the_next(cluster: Cluster) -> None:
    program = (
        "import os, signal; from tests.cluster.cluster import *\n"
        "c = Cluster(new_folder()); own(c.folder); c.up(); print(c.folder, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    left = Cluster(Path(done.stdout.strip()))
    everything = left.running()
    assert len(everything) == 6, done.stderr
    clean_up()
    assert not left.folder.exists()
    assert not [process for process in everything if alive(process)]
    assert len(cluster.running()) >= 6


@pytest.mark.parametrize("folder", ["/etc", "/nowhere"])
def test_only_a_cluster_is_taken_down(folder: str) -> None:
    down = command("down", folder)
    assert down.returncode == 1
    assert f"no cluster in {folder}" in down.stderr
    assert Path("/etc").exists()


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """`python tests/cluster …`, as a user types it."""
    folder = Path(__file__).resolve().parent
    return subprocess.run(
        [sys.executable, str(folder), *words], capture_output=True, text=True, check=False, timeout=60
    )
