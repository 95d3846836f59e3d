"""A node's own disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.worker.staging.disk import Disk, release


@pytest.fixture(autouse=True)
def let_go() -> None:
    """What an earlier test held is held no more."""
    release()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(str(tmp_path / "disk"))
