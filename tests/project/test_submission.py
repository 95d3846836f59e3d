"""Submissions: which controller of a run is awaited, and which one may take it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.base.paths import RunPaths
from diel.base.states import RunState
from diel.observe.status.run import read_status
from diel.store.journal.history import History
from diel.store.project.lease import take
from diel.store.project.submission import (
    STARTING,
    Submission,
    awaited,
    begun,
    job_name,
    job_prefix,
    make_submission,
    newest_submission,
    queued,
    read_submissions,
    refuse_unwanted,
    submission_of,
    withdraw,
)
from tests.written import Written

NEW = History()


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "w-1")
    found.journal.mkdir(parents=True)
    return found


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


# --- names ----------------------------------------------------------------------------------------


def test_the_names_of_a_runs_jobs_fit_every_scheduler_and_are_its_own(tmp_path: Path) -> None:
    names = {job_prefix(RunPaths(tmp_path / f"w-{n}")) for n in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch("diel[a-z2-7]{6}", name) for name in names)
    assert len(job_name(RunPaths(tmp_path / "w-1"), 999)) == 15
    assert job_prefix(RunPaths(tmp_path / "w-1")) == job_prefix(RunPaths(tmp_path / "w-1"))


# --- written down ---------------------------------------------------------------------------------


def test_submissions_are_numbered_and_the_newest_counts(paths: RunPaths) -> None:
    assert newest_submission(paths) is None
    first = queued(paths, make_submission(paths, "job"), "12.server")
    withdraw(paths, first)
    withdraw(paths, first)
    second = make_submission(paths, "inside")
    third = make_submission(paths, "job", successor=True)
    assert [one.number for one in read_submissions(paths)] == [second.number, third.number]
    assert newest_submission(paths) == third
    assert not list(paths.submissions.glob(".*"))


def test_a_submission_that_is_being_written_is_passed_over_and_its_number_stays_taken(
    paths: RunPaths,
) -> None:
    make_submission(paths, "job")
    paths.submission(2).touch()
    paths.submissions.joinpath("notes.txt").touch()
    assert [one.number for one in read_submissions(paths)] == [1]
    assert make_submission(paths, "job").number == 3


def test_where_nothing_can_be_written_that_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="w-9: cannot write there"):
        make_submission(RunPaths(tmp_path / "w-9"), "job")


# --- awaited --------------------------------------------------------------------------------------


def test_a_queued_controller_is_awaited_until_one_takes_the_run(paths: RunPaths) -> None:
    made = queued(paths, make_submission(paths, "job"), "7")
    assert awaited(paths, NEW) == made
    take(paths)
    assert awaited(paths, NEW) is None
    assert submission_of(paths, 1) == made
    assert submission_of(paths, 2) is None


def test_a_controller_on_this_host_is_awaited_as_long_as_its_process_lives(paths: RunPaths) -> None:
    made = make_submission(paths, "login")
    assert awaited(paths, NEW) == made
    assert made._replace(made=made.made - 2 * STARTING).starts(made.made) is False
    made = begun(paths, made, os.getpid())
    assert awaited(paths, NEW) == made
    begun(paths, made, ended_process())
    assert awaited(paths, NEW) is None


def test_a_successor_is_not_awaited_where_the_run_came_to_its_end(paths: RunPaths) -> None:
    make_submission(paths, "job", successor=True)
    assert awaited(paths, History(state=RunState.RUNNING)) is not None
    assert awaited(paths, History(state=RunState.INTERRUPTED)) is not None
    assert awaited(paths, History(state=RunState.SUCCEEDED)) is None
    make_submission(paths, "job")  # but that of a `resume` is: what failed is tried anew
    assert awaited(paths, History(state=RunState.FAILED)) is not None


def test_a_run_is_pending_while_its_next_controller_waits(tmp_path: Path) -> None:
    for state in ("interrupted", "failed", "cancelled"):
        run = Written(tmp_path / "runs", f"{state}-1").end(state)
        made = queued(run.paths, make_submission(run.paths, "job"), "42")
        status = read_status(run.paths)
        assert (status.state, status.awaited, status.submission) == ("pending", True, made)
        assert status.document()["controller"]["job"] == "42"
        assert status.ended is None


def test_a_living_controller_runs_whether_or_not_its_successor_is_queued(tmp_path: Path) -> None:
    run = Written(tmp_path / "runs", alive=True)
    make_submission(run.paths, "job", successor=True)
    assert read_status(run.paths).state == "running"
    run.write("handover")
    assert read_status(run.paths).state == "pending"  # not interrupted in between, though its process lives


def test_a_run_that_was_handed_over_to_nobody_is_interrupted(tmp_path: Path) -> None:
    run = Written(tmp_path / "runs", alive=True).write("handover")
    assert read_status(run.paths).state == "interrupted"


# --- may it take the run --------------------------------------------------------------------------


def test_only_the_newest_submission_may_take_the_run(paths: RunPaths) -> None:
    first = make_submission(paths, "job")
    assert refuse_unwanted(paths, 1, NEW) == first
    second = make_submission(paths, "job")
    with pytest.raises(UsageError, match="submission 1 was withdrawn or replaced"):
        refuse_unwanted(paths, 1, NEW)
    withdraw(paths, second)
    take(paths)
    with pytest.raises(UsageError, match="another controller came before that of submission 1"):
        refuse_unwanted(paths, 1, NEW)


def test_a_successor_leaves_a_run_alone_that_is_over(paths: RunPaths) -> None:
    made = make_submission(paths, "job", successor=True)
    with pytest.raises(UsageError, match="ended already .succeeded."):
        refuse_unwanted(paths, made.number, History(state=RunState.SUCCEEDED))


def test_an_unreadable_submission_is_none_at_all(paths: RunPaths) -> None:
    paths.submissions.mkdir()
    paths.submission(1).write_text('{"number": 1}')
    assert newest_submission(paths) is None
    with pytest.raises(UsageError, match="withdrawn"):
        refuse_unwanted(paths, 1, NEW)
    assert isinstance(make_submission(paths, "job"), Submission)
