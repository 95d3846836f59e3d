"""Folders of a task, and ways to collect what it made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.store.artifacts import collect_files, collect_returned
from diel.workflow.models import Output

Take = Callable[..., tuple[dict[str, Any], dict[str, dict[str, Any]]]]
Hold = Callable[..., None]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "w-1"


@pytest.fixture
def task_dir(run_dir: Path) -> Path:
    path = run_dir / "tasks" / "s" / "0"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def take(task_dir: Path, run_dir: Path) -> Take:
    return lambda **outputs: collect_returned(outputs, task_dir, run_dir)


@pytest.fixture
def hold(task_dir: Path) -> Hold:
    """Writes a file, and holds it to a contract as after a command."""

    def check(path: str, content: Any, **contract: Any) -> None:
        file = task_dir / path
        if isinstance(content, numpy.ndarray):
            numpy.save(file, content)
        else:
            file.write_text(content)
        promise = Output.model_validate({"path": path, **contract})
        collect_files({"out": path}, task_dir, task_dir.parents[2], {"out": promise})

    return check
