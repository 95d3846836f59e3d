"""`diel cancel`."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from diel.observe.status.run import read_status
from diel.store.project.requests import read_cancels
from tests.cli.call import call
from tests.throwaway import Project, wait_for
from tests.written import Written

Capture = pytest.CaptureFixture[str]
ENDLESS = """
    axes:
      i: {range: 8}
    stages:
      quick: {command: "true"}
      wait: {over: [i], after: [quick], command: "touch '${{ run.dir }}/begun'; sleep 600"}
      later: {over: [i], after: [wait], command: "true"}
"""


@pytest.fixture
def runs(workspace: Path) -> Path:
    return workspace / "runs"


def test_a_run_whose_controller_was_killed_is_ended_here(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(ENDLESS)
    process = project.start("run", "flow.yaml")
    wait_for((tmp_path / "runs/flow-1/begun").exists)
    process.kill()
    project.end(process, -signal.SIGKILL)
    assert project.newest().processes() != []  # the sleep goes on
    assert "its controller was gone" in project.diel("cancel")
    run = project.newest()
    assert run.processes() == []
    assert run.counts("wait") == {"cancelled": 8}
    assert json.loads(project.diel("status", "--json"))["state"] == "cancelled"
    assert "has ended already (cancelled)" in project.diel("cancel", code=2)


def test_asking_without_waiting_leaves_a_request(runs: Path, capsys: Capture) -> None:
    run = Written(runs, alive=True)
    said = call(capsys, "cancel", "w-1", "b", "a/02", "--no-wait")
    assert said.code == 0
    assert [cancel.targets for cancel in read_cancels(run.paths)] == [{"b", "a/2"}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["w-1", "aa"], "did you mean 'a'"),
        (["w-1", "a/7"], "a/0 to a/3"),
        (["w-1", "a/x"], "STAGE/INDEX"),
        (["w-2"], "did you mean 'w-1'"),
    ],
)
def test_targets_that_are_not_there_are_refused_before_anything_is_asked(
    runs: Path, capsys: Capture, words: list[str], said: str
) -> None:
    run = Written(runs, alive=True)
    result = call(capsys, "cancel", *words)
    assert result.code == 2
    assert said in result.err
    assert os.listdir(run.paths.requests) == []


def test_a_part_of_a_run_without_a_controller_cannot_be_cancelled(runs: Path, capsys: Capture) -> None:
    Written(runs)
    result = call(capsys, "cancel", "w-1", "a")
    assert result.code == 2
    assert "controller of w-1 is gone" in result.err


def test_a_run_that_was_cancelled_before_its_controller_planned_is_told_as_that(
    workspace: Path, capsys: Capture
) -> None:
    run = Written(workspace / "runs", stages=False)
    assert call(capsys, "cancel").code == 0
    said = call(capsys, "status").out
    assert said.startswith("w-1 cancelled · before it began · ")
    assert "late" in said
    assert "0/?" in call(capsys, "list").out
    assert read_status(run.paths).document()["tasks"]["total"] is None
