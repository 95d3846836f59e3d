"""What every test shares: a clean environment, the checkout's root, and steady property tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cluster import cluster as virtual

# The machines that run the tests are small and shared: no deadlines, and the same examples each time.
settings.register_profile("diel", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("diel")

_COLOUR = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES")


LONG = ("test_workflows.py", "test_killed.py", "test_docs.py", "test_adaptive_killed.py")
"""Files whose tests take long."""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away what the caller's shell says to diel, so that a test sees the same on every machine."""
    for name in list(os.environ):
        if name.startswith("DIEL_") or name in _COLOUR:
            monkeypatch.delenv(name)


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that no process is left with it at the end."""
    items.sort(
        key=lambda item: "cluster" not in getattr(item, "fixturenames", ()) and item.path.name not in LONG
    )
