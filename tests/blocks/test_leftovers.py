"""What an earlier controller left: its jobs are ended by their names, whatever the journal says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from diel.backends.blocks import leftovers
from diel.backends.blocks.block import Block
from diel.backends.blocks.leftovers import Leftovers, close, end_jobs
from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.observe.status.run import read_status
from diel.site.scheduler import JobState
from diel.site.shape import Shape
from diel.store.journal.history import History
from diel.store.journal.snapshot import read_run
from diel.store.project.lease import newest_epoch, take
from diel.store.project.submission import job_prefix
from diel.tasks.ledger import Ledger
from tests.pretend import Pretend
from tests.written import Written


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    found = Pretend()
    monkeypatch.setattr(leftovers, "scheduler_named", lambda name: found)
    monkeypatch.setattr(leftovers, "PAUSE", 0.01)
    return found


@pytest.fixture
def history(paths: RunPaths) -> History:
    """Of a run whose journal names job 700 as its block's."""
    segment = take(paths)[1]
    ledger = Ledger(paths, segment)
    block = Block("1-0", Shape("cpu", 0, 4), 4, 60.0, 0.0, 1, job="700", state=JobState.RUNNING)
    ledger.append(block.record())
    segment.close()
    return ledger.history


def ended(paths: RunPaths, history: History, patience: float) -> Leftovers:
    found = end_jobs(paths, history, patience=patience)
    assert found is not None
    return found


def test_jobs_are_known_by_their_names_and_all_are_ended(
    paths: RunPaths, history: History, scheduler: Pretend
) -> None:
    own = [scheduler.add(f"{job_prefix(paths)}-{name}") for name in ("1-0", "1-1", "c1")]
    other = scheduler.add("somebody-else")
    found = ended(paths, history, patience=5.0)
    assert (found.ended, found.left) == (tuple(own), ())
    assert not scheduler.states[other].ended


def test_a_scheduler_that_does_not_answer_leaves_the_jobs_that_the_journal_names(
    paths: RunPaths, history: History, scheduler: Pretend
) -> None:
    scheduler.busy = 1000
    found = ended(paths, history, patience=0.1)
    assert (found.ended, found.left) == ((), ("700",))
    assert "slurmctld does not answer" in found.why


def test_a_job_that_will_not_end_is_told(paths: RunPaths, history: History, scheduler: Pretend) -> None:
    scheduler.deaf = True
    number = scheduler.add(f"{job_prefix(paths)}-1-0")
    assert ended(paths, history, patience=0.1).left == (number,)


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
