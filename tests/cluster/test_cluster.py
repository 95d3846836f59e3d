"""The virtual Slurm itself: what tests on it rely on, and that it leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.site.find import find_site
from tests.cluster.cluster import Cluster, clean_up, new_folder
from tests.cluster.daemon import wait_until
from tests.cluster.sites import site_texts
from tests.descendants import alive


@pytest.fixture
def idle(cluster: Cluster) -> Iterator[Cluster]:
    """The session's cluster, idle before and after."""
    cluster.clear()
    yield cluster
    cluster.clear()


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
