"""What the tests of the shipped modules share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import diel
from diel.workflow.modules.signature import Signature, read_signature

HEAD = """
from __future__ import annotations
import a_library_that_does_not_exist
import annotated_types as at
import collections.abc as cabc
import typing as t
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Optional, TypedDict, Union
import diel
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
raise SystemExit("this file was imported")
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(body: str, head: str = HEAD) -> Path:
        path = tmp_path / "module.py"
        path.write_text(head + textwrap.dedent(body), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def signature(write: Write) -> Callable[[str], Signature]:
    def read(parameters: str) -> Signature:
        body = f'@diel.module(kind="simulation")\ndef f({parameters}): ...\n'
        return read_signature(write("Positive = Annotated[int, Field(ge=1)]\nLIMIT = 5\n" + body), "f")

    return read


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
