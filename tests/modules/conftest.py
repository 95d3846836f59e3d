"""What the tests of the shipped modules share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import diel


@pytest.fixture
def context(tmp_path: Path) -> diel.Context:
    """A task in an empty directory."""
    task_dir = tmp_path / "task"
    task_dir.mkdir()
    return diel.Context(task_dir=task_dir)


@pytest.fixture
def continued(tmp_path: Path) -> Callable[[Callable[[diel.Context], Any]], tuple[Any, int]]:
    """Calls a module that is interrupted as soon as it asks, until it ends: its result, and its attempts."""

    def run(call: Callable[[diel.Context], Any]) -> tuple[Any, int]:
        for attempt in range(1, 500):
            task_dir = tmp_path / "stopped" / f"0.{attempt}"
            task_dir.mkdir(parents=True)
            context = diel.Context(task_dir=task_dir, checkpoint=True, interrupt_at=0.0, attempt=attempt)
            with suppress(diel.Interrupted):
                return call(context), attempt
        raise AssertionError("it gets nowhere")

    return run


@pytest.fixture
def on_ranks(root: Path, tmp_path: Path) -> Callable[[int, str], str]:
    """Runs Python code on MPI ranks, in an empty directory; returns what it printed."""
    launcher = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert launcher, "mpiexec is not there: pip install 'diel[mpi]'"

    def run(ranks: int, code: str) -> str:
        directory = tmp_path / "ranks"
        directory.mkdir()
        done = subprocess.run(
            [launcher, "-n", str(ranks), sys.executable, "-W", "error", "-c", code],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
