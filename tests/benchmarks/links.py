"""Whether T(p) holds on more ranks than it was fitted on: sums by MPI over links whose rate is limited.

Each rank has a network namespace of its own on a bridge, as nodes have a switch. So its link decides how long a
sum takes, and not the cores, of which there may be fewer than ranks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RANKS, RATE = (2, 3, 4, 6, 8), "50mbit"
CALL = f"""
from pathlib import Path
from mpi4py import MPI
import diel
from modules.training.allreduce import allreduce
allreduce(
    MPI.COMM_WORLD, diel.Context(task_dir=Path()), least=65536, doublings=4, ranks={[*RANKS]}, seconds=10
)
"""
OVER_LINKS = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
"""For MPICH: no memory that ranks share, and a rank sleeps while it waits."""


def links(runs: int) -> None:
    """Fits two ranks, and predicts others; once, however many runs are asked for."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "nsenter"))):
        print("  links: left out, as it needs root, iproute2 and util-linux")
        return
    checkout, mpiexec = Path(__file__).resolve().parents[2], Path(sys.executable).with_name("mpiexec")
    env = {**os.environ, **OVER_LINKS, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder, _switch(max(RANKS)) as name:
        enter = ["sh", "-c", f'exec nsenter --net=/run/netns/{name}-$PMI_RANK "$@"', "sh"]
        words = [str(mpiexec), "-n", str(max(RANKS)), *enter, sys.executable, "-c", CALL]
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        if "predictions within" in line:
            print(f"  {line}")


@contextmanager
def _switch(ports: int) -> Iterator[str]:
    """A bridge in a namespace, and the namespaces NAME-0, NAME-1, … with a link to it each; yields NAME."""
    name = f"diel{os.getpid()}"
    try:
        _do(f"ip netns add {name}", f"ip -n {name} link add switch up type bridge")
        for port in range(ports):
            end = f"{name}-{port}"
            _do(
                f"ip netns add {end}",
                f"ip -n {name} link add port{port} type veth peer name eth0 netns {end}",
                f"ip -n {name} link set port{port} master switch up",
                f"ip -n {end} address add 10.0.0.{port + 1}/24 dev eth0",
                f"ip -n {end} link set lo up",
                f"ip -n {end} link set eth0 up",
                f"tc -n {end} qdisc add dev eth0 root tbf rate {RATE} burst 32kb latency 400ms",
            )
        yield name
    finally:
        for end in (*(f"{name}-{port}" for port in range(ports)), name):
            subprocess.run(["ip", "netns", "delete", end], capture_output=True, check=False)


def _do(*commands: str) -> None:
    for command in commands:
        subprocess.run(command.split(), check=True)
