"""Words of a job script, and what a scheduler says of a job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diel.site.scheduler import (
    Job,
    JobState,
    JobStatus,
    SchedulerRefused,
    check_outputs,
    clock,
    mebibytes,
    quoted,
)
from diel.site.scheduler.job import states


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "00:00:01"), (61, "00:01:01"), (90061.2, "25:01:02")])
def test_a_walltime_is_rounded_up_and_has_hours_beyond_a_day(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_memory_is_rounded_up() -> None:
    assert [mebibytes(size) for size in (1, 2**20, 2**20 + 1)] == [1, 1, 2]


@pytest.mark.parametrize("letter", ["\n", '"', "\\", "\x07"])
def test_a_path_that_schedulers_read_in_different_ways_is_refused(letter: str) -> None:
    assert quoted(Path("/a b/%j")) == '"/a b/%j"'
    with pytest.raises(SchedulerRefused, match="cannot name"):
        quoted(Path(f"/a{letter}b"))


def test_an_output_without_its_folder_is_refused(tmp_path: Path) -> None:
    script, named = tmp_path / "job.sh", re.compile("^#X -o (.+)$", re.MULTILINE)
    script.write_text("#!/bin/sh\n#X -o 'here.out'\n")
    assert check_outputs(script, named) == ("here.out",)
    script.write_text("#!/bin/sh\n#X -o none/here.out\n")
    with pytest.raises(SchedulerRefused, match="make that folder"):
        check_outputs(script, named)


def test_options_of_a_site_get_the_number_of_nodes() -> None:
    here = Path("/x")
    job = Job("d", "true", here, here / "o", here / "e", 3, 1, 60.0, options=("-l select={nodes}", "-x"))
    assert job.extra == ("-l select=3", "-x")


def test_states_are_given_by_what_they_mean() -> None:
    assert states(pending="Q H", gone="F") == {
        "Q": JobState.PENDING,
        "H": JobState.PENDING,
        "F": JobState.GONE,
    }
    ended = {state for state in JobState if state.ended}
    assert set(JobState) - ended == {JobState.PENDING, JobState.RUNNING, JobState.ENDING}


def test_a_status_is_told_with_its_reason() -> None:
    assert JobStatus(JobState.PENDING, "Priority").words == "pending (Priority)"
    assert JobStatus(JobState.RUNNING).words == "running"
