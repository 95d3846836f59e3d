"""Workers of this machine that take long to start: it is said, and not for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

import diel
from diel.base.errors import DielError
from tests.throwaway import Project

SLOW = "import sys, time\nif 'diel.worker' in sys.orig_argv:\n    time.sleep({seconds})\n"


def slow_project(folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, startup: str) -> Project:
    """Whose workers take that long to start, on a site that waits for so long."""
    (folder / "sitecustomize.py").write_text(SLOW.format(seconds=seconds))
    (folder / "schedulers").mkdir()
    site = f"name: slow\nscheduler: local\nstartup: {startup}\npools: {{all: {{cores: 2}}}}\n"
    (folder / "schedulers" / "slow.yaml").write_text(site)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.chdir(folder)
    return Project(folder).workflow('stages: {work: {command: "true"}}')


def test_what_a_run_waits_for_is_said_and_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diel.backends.blocks.local.LONG", 0.3)
    project = slow_project(tmp_path, monkeypatch, 2, "60s")
    assert diel.run("flow.yaml", site="slow").state == "succeeded"
    told = [record["message"] for record in project.newest().records("trouble")]
    assert told[0] == "no worker has started yet; they get up to 1m00s (`startup` of the site)"
    assert told[1:] in ([], [""])


def test_a_site_says_how_long_that_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = slow_project(tmp_path, monkeypatch, 60, "1s")
    with pytest.raises(DielError, match="no worker started within 1.0s"):
        diel.run("flow.yaml", site="slow")
    assert project.newest().history().state == "interrupted"
