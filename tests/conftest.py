"""What every test shares: a clean environment, the checkout's root, and steady property tests."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cluster import cluster as virtual

# The machines that run the tests are small and shared: no deadlines, and the same examples each time.
settings.register_profile("diel", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("diel")

# A shell that runs the tests in the background, or `nohup`, has them ignore these; so would every program they
# start, and no test could interrupt one.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# More ranks than cores wait for each other by sleeping, and not by taking the core that the other one needs.
os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")  # MPICH
os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")  # Open MPI

# So do threads: of two that share small matrices on a busy core, one only spins, for up to thirty times the work.
# OMP_NUM_THREADS is left alone, which diel sets for its tasks.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy and SciPy
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch and scikit-learn

_COLOUR = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES")


LONG = (
    "test_workflows.py",
    "test_docs.py",
    "test_campaign.py",
    "test_homes.py",
    "test_ising.py",
)
"""Files whose tests take long."""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away what the caller's shell says to diel, so that a test sees the same on every machine."""
    for name in list(os.environ):
        if name.startswith("DIEL_") or name in _COLOUR:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def own_leaks(clean_environment: None) -> Iterator[None]:
    """Has a file that a test opened and lost fail this test, and not one that runs later."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    if set(os.listdir("/proc/self/fd")) - before:
        gc.collect()


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that is the current one, so that `runs/` lands in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def cluster() -> Iterator[virtual.Cluster]:
    """A real Slurm with four virtual nodes, for all tests of the session: leave it idle (`clear`)."""
    reason = virtual.missing()
    if reason:
        pytest.skip(reason)
    virtual.clean_up()
    slurm = virtual.Cluster(virtual.new_folder())
    virtual.own(slurm.folder)
    try:
        slurm.up()
        yield slurm
    finally:
        slurm.down()


@pytest.hookimpl(trylast=True)  # behind what is left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, spread over the processes, so that none is left with it at the end.

    Each process begins with a part of the list and takes from the ends of others' parts when it has done its
    own. Those on the virtual cluster wait more than they compute: two processes, each with a cluster, have them.
    """
    cluster = [item for item in items if "cluster" in getattr(item, "fixturenames", ())]
    long = [item for item in items if item.path.name in LONG and item not in cluster]
    rest = iter([item for item in items if item not in cluster and item not in long])
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    begins = [[*cluster, *long]]
    if processes > 2:
        begins = [
            cluster[::2],
            cluster[1::2],
            *(long[number :: processes - 2] for number in range(processes - 2)),
        ]
    elif processes == 2:
        begins = [cluster, long]
    placed: list[pytest.Item] = []
    for number, begin in enumerate(begins):
        size = (len(items) - len(placed)) // (processes - number)
        placed += [*begin, *itertools.islice(rest, max(0, size - len(begin)))]
    items[:] = [*placed, *rest]
