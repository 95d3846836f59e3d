"""A function computes on the cores that its stage asks for, whatever the shell says that started the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.worker.attempt.surroundings import Surroundings
from tests.throwaway import Project


def test_a_worker_that_begins_leaves_alone_what_others_tasks_read(tmp_path: Path) -> None:
    """A task without parameters may open the file at that moment."""
    paths = RunPaths(tmp_path / "w-1")
    paths.captures.mkdir(parents=True)
    Surroundings(paths)
    (nothing,) = paths.captures.iterdir()
    assert nothing.read_text() == "{}"
    nothing.chmod(0o400)
    before = nothing.stat()
    Surroundings(paths)
    assert (nothing.stat().st_ino, nothing.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_function_is_told_its_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    project = Project(tmp_path).workflow(
        "stages: {told: {module: told}, own: {module: told, env: {OMP_NUM_THREADS: 5}}}"
    )
    project.module(
        "told",
        """
        import os

        @diel.module(kind="training")
        def told() -> dict:
            return {"threads": int(os.environ["OMP_NUM_THREADS"])}
        """,
    )
    run = project.run()
    assert run.value("told", "threads") == 1
    assert run.value("own", "threads") == 5
