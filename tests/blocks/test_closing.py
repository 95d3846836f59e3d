"""A run that nobody drives is closed by whoever cancels it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from diel.blocks.leftovers import close, end_jobs
from diel.errors import DielError
from diel.journal.snapshot import read_run
from diel.project.lease import newest_epoch, take
from diel.status.run import read_status
from tests.written import Written


@pytest.fixture
def run(tmp_path: Path) -> Written:
    return Written(tmp_path / "runs").done(0).failed(1, "exit code 3")


def closed(run: Written) -> None:
    assert close(run.paths, read_run(run.paths), read_status(run.paths)) is None, "no scheduler has its jobs"


def test_what_failed_before_stays_failed_and_the_rest_is_cancelled(run: Written) -> None:
    closed(run)
    status = read_status(run.paths)
    assert (status.state, status.alive) == ("cancelled", False)
    counts = {state: n for state, n in status.stages[0].counts.items() if n}
    assert counts == {"done": 1, "failed": 1, "cancelled": 2}
    assert status.failures[0]["message"] == "exit code 3"


def test_what_still_runs_of_it_on_this_machine_is_ended(run: Written) -> None:
    with subprocess.Popen(["sleep", "100"], env={**os.environ, "DIEL_RUN_DIR": str(run.paths.root)}) as left:
        closed(run)
        assert left.wait(60) < 0


def test_a_controller_that_is_only_just_coming_finds_the_run_taken(run: Written) -> None:
    before = newest_epoch(run.paths)
    closed(run)
    assert newest_epoch(run.paths) == before + 1
    _, segment = take(run.paths)
    segment.close()
    assert segment.name == run.paths.controller_segment(before + 2).name


def test_a_run_that_somebody_drives_is_not_closed(tmp_path: Path) -> None:
    run = Written(tmp_path / "runs", alive=True)
    with pytest.raises(DielError):
        closed(run)
    assert read_status(run.paths).alive


def test_a_run_without_a_site_has_no_jobs_to_end(run: Written) -> None:
    assert end_jobs(run.paths, read_run(run.paths).history, patience=0.0) is None
