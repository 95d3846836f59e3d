"""What was asked for when a run was made comes back, and what holds no run is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.errors import UsageError
from diel.project.run_file import RunFile, read_kept_workflow, read_run_file
from diel.project.runs import create_run


def test_a_directory_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    paths = create_run(tmp_path, "a")
    for text in ("", "[]", '{"run": "a-1"}', "\0"):
        paths.run_file.write_text(text)
        with pytest.raises(UsageError, match="holds no run that this diel can read"):
            read_run_file(paths)
    paths.run_file.unlink()
    with pytest.raises(UsageError, match="holds no run"):
        read_run_file(paths)


def test_what_was_asked_for_comes_back_as_it_was(tmp_path: Path) -> None:
    asked = RunFile(
        run="a-1",
        workflow="a",
        source="/flows/a.yaml",
        cwd="/flows",
        site="local",
        hyperparameters={"rate": 1e-3, "layers": [1, 2], "name": "é"},
        origins={"rate": "default"},
        settings=("rate=1e-3",),
        created=1.5,
        host="h",
        user="u",
        diel="0",
        python="3",
    )
    paths = create_run(tmp_path, "a")
    paths.run_file.write_text(asked.model_dump_json())
    assert read_run_file(paths) == asked
    assert asked.folder == Path("/flows")


def test_a_workflow_that_is_gone_is_refused_with_what_to_do(tmp_path: Path) -> None:
    paths = create_run(tmp_path, "a")
    with pytest.raises(UsageError, match="its workflow cannot be read"):
        read_kept_workflow(paths)
    paths.workflow.write_text(" \n")
    with pytest.raises(UsageError, match="copy the workflow file there"):
        read_kept_workflow(paths)
    paths.workflow.write_text("name: é\n", encoding="utf-8")
    assert read_kept_workflow(paths) == "name: é\n"
