"""What an earlier controller left: its jobs are ended by their names, whatever the journal says."""

from __future__ import annotations

import pytest

from diel.blocks import leftovers
from diel.blocks.block import Block
from diel.blocks.leftovers import Leftovers, end_jobs
from diel.journal.history import History
from diel.paths import RunPaths
from diel.project.lease import take
from diel.project.submission import job_prefix
from diel.scheduler import JobState
from diel.site import Shape
from diel.tasks.ledger import Ledger
from tests.pretend import Pretend


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
