"""Ports of MPI launchers and ranks on one machine: other hosts do not reach them."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from diel.attempt.ports import at_home
from tests.throwaway import Project, wait_for

RANK = """
import sys, time
from pathlib import Path
{start}
Path(sys.argv[1], f"up{{rank}}").touch()
while not Path(sys.argv[1], "go").exists():
    time.sleep(0.02)
"""
MPICH = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.Get_rank()\nassert MPI.COMM_WORLD.allreduce(1) == 2"
OTHER = "import os\nrank = os.environ['OMPI_COMM_WORLD_RANK']"
LAUNCHERS = {
    "mpiexec": ("[mpiexec, -n, '{ranks}']", MPICH),
    "mpirun.openmpi": ("[mpirun.openmpi, --oversubscribe, -n, '{ranks}']", OTHER),
}


def own_address() -> str | None:
    """An address of this host that others may reach."""
    found = [a.address for each in psutil.net_if_addrs().values() for a in each if a.family == socket.AF_INET]
    return next((address for address in found if not address.startswith("127.")), None)


def listening(folder: Path) -> list[str]:
    """Where processes of the tasks in a folder listen, as `ss` tells."""
    marks = (str(folder / "runs"),)
    pids = set()
    for process in psutil.process_iter():
        try:
            if str(process.environ().get("DIEL_TASK_DIR", "")).startswith(marks):
                pids.add(process.pid)
        except (psutil.Error, OSError):
            continue
    said = subprocess.run(
        ["ss", "-H", "-l", "-t", "-n", "-p"], capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in said.splitlines() if any(f"pid={pid}," in line for pid in pids)]
    return [line.split()[3] for line in lines]


@pytest.mark.parametrize(
    ("program", "itself"), [*((program, "") for program in LAUNCHERS), ("mpiexec", '"${{ launcher }}", ')]
)
def test_nothing_that_a_task_launches_hears_other_hosts(
    program: str, itself: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = own_address()
    found = shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))
    if address is None or found is None or shutil.which("ss") is None:
        pytest.skip(f"no `ss`, no {program}, or no address besides loopback")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    launcher, start = LAUNCHERS[program]
    (tmp_path / "rank.py").write_text(RANK.format(start=start))
    (tmp_path / "here.yaml").write_text(f"extends: local\nlauncher: {launcher}\n")
    made = Project(tmp_path).workflow(f"""
        stages:
          s: {{command: [{itself}python, {tmp_path}/rank.py, {tmp_path}], resources: {{ranks: 2}}}}
    """)
    run = made.start("run", "flow.yaml", "--site", "here.yaml")
    try:
        wait_for(lambda: (tmp_path / "up0").exists() and (tmp_path / "up1").exists())
        wait_for(lambda: not _outside(listening(tmp_path)))
        ports = {int(place.rpartition(":")[2]) for place in listening(tmp_path)}
        assert ports  # the launcher's own at least
        for port in ports:
            assert not sent(address, port), port
    finally:
        (tmp_path / "go").touch()
        made.end(run)


def sent(address: str, port: int) -> bool:
    """Whether a launcher takes a dozen bytes that end it."""
    try:
        with socket.create_connection((address, port), timeout=0.3) as link:
            link.sendall(b"HYD\0" + struct.pack("=ii", 99, 99))
            return True
    except OSError:
        return False


def _outside(places: list[str]) -> list[str]:
    """Those that are not the loopback interface's."""
    hosts = [place.rpartition(":")[0] for place in places]
    return [
        host for host in hosts if not (host.startswith("127.") or host == "[::1]" or host.endswith("%lo"))
    ]


def test_launchers_that_reach_other_hosts_are_left_alone() -> None:
    assert at_home(("mpiexec", "-n", "2"), {})
    assert not at_home(("mpiexec", "-n", "2", "-hosts", "a,b"), {})
    assert not at_home(("mpiexec", "-n", "2"), {"SLURM_JOB_ID": "1"})
    assert not at_home(("mpiexec", "-n", "2"), {"DIEL_BLOCK": "b"})
