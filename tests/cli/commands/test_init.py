"""`diel init`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.cli.commands.init import STARTER
from tests.cli.call import call
from tests.throwaway import Project, Run

Capture = pytest.CaptureFixture[str]


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_the_starter_runs_as_it_is_and_agrees_with_theory(tmp_path: Path) -> None:
    Project(tmp_path).diel("init", "study")
    study = Project(tmp_path / "study", "workflow")
    study.diel("validate", "workflow.yaml")
    study.diel("run", "workflow.yaml")
    run = study.folder / "runs" / "pendulum-1"
    assert "theory says 0.0625" in (run / "tasks/report/0/report.txt").read_text()
    status = json.loads(study.diel("status", "--json"))
    assert status["tasks"]["done"] == status["tasks"]["total"] == 14
    (fit,) = Run(run).results("fit").values()
    assert fit["values"]["coefficient"] == pytest.approx(1 / 16, rel=0.01)


def test_it_copies_all_files_and_says_what_to_type(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "init", "my study")
    assert said.code == 0
    assert said.out.rstrip().endswith("cd 'my study' && diel run workflow.yaml")
    assert files(workspace / "my study") == files(STARTER)
    assert "workflow.yaml" in files(STARTER)


def test_here_is_where_it_is_made_without_a_name(workspace: Path, capsys: Capture) -> None:
    assert call(capsys, "init").out.rstrip().endswith("Now: diel run workflow.yaml")
    assert (workspace / "workflow.yaml").exists()


def test_nothing_is_overwritten_and_nothing_half_made(workspace: Path, capsys: Capture) -> None:
    (workspace / "study").mkdir()
    (workspace / "study" / "workflow.yaml").write_text("mine")
    said = call(capsys, "init", "study")
    assert said.code == 2
    assert "study/workflow.yaml already exists" in said.err
    assert files(workspace / "study") == {"workflow.yaml": b"mine"}


def test_a_directory_that_cannot_be_made_is_told(workspace: Path, capsys: Capture) -> None:
    (workspace / "file").touch()
    said = call(capsys, "init", "file/study")
    assert said.code == 2
    assert "file/study" in said.err
