"""A function computes on the cores that its stage asks for, whatever the shell says that started the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project


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
