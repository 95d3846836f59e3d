"""Folders of a run that somebody removed: made again, or the run says that it cannot go on without."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.throwaway import Project, Run

WORKFLOW = """
    axes:
      i: {file: points.csv}
    stages:
      first: {over: [i], command: "echo ${{ i }}"}
      last: {after: [first], command: "echo said; test -e GO"}
"""


@pytest.fixture
def failed(tmp_path: Path) -> tuple[Project, Run]:
    """A run whose last task failed, and would not any more."""
    project = Project(tmp_path).workflow(WORKFLOW.replace("GO", str(tmp_path / "go")))
    (tmp_path / "points.csv").write_text("i\n1\n2\n")
    run = project.run(code=1)
    (tmp_path / "go").touch()
    return project, run


@pytest.mark.parametrize("folder", ["logs", "logs/captures", "requests", "tasks"])
def test_a_folder_that_somebody_removed_is_made_again(failed: tuple[Project, Run], folder: str) -> None:
    project, run = failed
    shutil.rmtree(run.root / folder)
    project.diel("resume")
    assert run.history().state == "succeeded"
    assert run.attempts("last") == [1, 2]
    assert run.stdout("last", attempt=2) == "said\n"


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("journal", "its journal is gone"),
        ("axes", "axis 'i': the points that this run was made with are gone"),
    ],
)
def test_a_run_cannot_go_on_without_what_cannot_be_made_again(
    failed: tuple[Project, Run], folder: str, said: str
) -> None:
    project, run = failed
    shutil.rmtree(run.root / folder)
    assert said in project.diel("resume", code=2)


def test_logs_that_vanish_during_a_run_cost_no_output(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(
        """
        axes: {i: {range: 3}}
        stages:
          clear: {command: "rm -rf $DIEL_RUN_DIR/logs; echo cleared"}
          after: {over: [i], after: [clear], command: "echo ${{ i }}; echo err >&2"}
        """
    )
    run = project.run()
    assert run.stdout("clear") == "cleared\n"
    assert [(run.stdout("after", i), run.stderr("after", i)) for i in range(3)] == [
        (f"{i}\n", "err\n") for i in range(3)
    ]
    assert run.records("fail") == []


def test_workers_that_cannot_begin_end_the_run_with_the_reason(failed: tuple[Project, Run]) -> None:
    project, run = failed
    nothing = run.root / "logs" / "captures" / "nothing.json"
    nothing.unlink()
    nothing.mkdir()
    said = project.diel("resume", code=1)
    assert "no worker can begin, 5 tries in a row" in said
    assert f"Is a directory: '{nothing}'" in said
    assert f"'{nothing}'; `diel doctor` checks" in " ".join(run.records("trouble")[-1]["message"].split())
    assert run.attempts("last") == [1]
    nothing.rmdir()
    project.diel("resume")
