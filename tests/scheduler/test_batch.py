"""What diel's own schedulers share: a script is queued, and answers of commands are judged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from diel.scheduler import Job, JobState, JobStatus, SchedulerBusy, SchedulerRefused
from diel.scheduler.scheduler import Answer, BatchScheduler


class Batch(BatchScheduler):
    """A scheduler whose commands answer as a test says."""

    sentinel = "#B"
    queues_by = ("bqueue", "-q")
    held = ("--hold",)
    ends_by = ("bend",)
    accepted = r"^job (\d+)$"
    outputs = r"^#B --out=(.*)$"
    busy = "no server"
    settled = "unknown job"
    speaker = r"^bqueue: "

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []

    def ask(self, *words: str, **how: Any) -> Answer:
        self.asked.append(words)
        return self.answers.pop(0)

    def options(self, job: Job) -> Iterable[tuple[str, object]]:
        return (("--name={}", job.name), ("--queue={}", job.queue), ("--gpus={}", job.gpus))

    def jobs(self, ids: list[str]) -> Iterable[tuple[str, str, JobStatus]]:
        self.asked.append(("bstat", *ids))
        states = (JobState.RUNNING, JobState.COMPLETED, JobState.PENDING)
        return [(str(place), f"d-{place}", JobStatus(state)) for place, state in enumerate(states)]


def said(out: str = "", err: str = "", code: int = 0) -> Answer:
    return Answer(code, out, err)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "b.sh"
    path.write_text("#!/bin/sh\n#B --out=b.out\ntrue\n", encoding="utf-8")
    return path


def test_an_option_for_which_there_is_nothing_is_left_out(tmp_path: Path) -> None:
    job = Job("d", "true", tmp_path, tmp_path / "o", tmp_path / "e", nodes=3, cores=1, walltime=60)
    assert list(Batch().directives(job)) == ["--name=d"]


def test_a_queued_job_has_the_last_id_that_was_printed(script: Path) -> None:
    batch = Batch(said("Welcome\njob 7\njob 12\nhave fun\n"))
    assert batch.submit(script) == "12"
    assert batch.asked == [("bqueue", "-q", "b.sh")]


def test_an_output_that_can_go_nowhere_is_refused_before_the_scheduler_is_asked(script: Path) -> None:
    script.write_text("#B --out=no/such/b.out\n", encoding="utf-8")
    batch = Batch()
    with pytest.raises(SchedulerRefused, match="make that folder"):
        batch.submit(script)
    assert batch.asked == []


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (said(err="bqueue: no such queue", code=1), SchedulerRefused, "bqueue: no such queue"),
        (said(err="bqueue: No Server is there", code=1), SchedulerBusy, "bqueue: No Server is there"),
        (said(err="killed", code=-9), SchedulerBusy, "bqueue: killed"),
        (said("thank you"), SchedulerBusy, "bqueue printed no id of a job: thank you"),
    ],
)
def test_only_what_asking_again_cannot_help_is_a_refusal(
    script: Path, answer: Answer, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        Batch(answer).submit(script)
    assert str(caught.value) == message


def test_a_job_that_is_tried_out_is_held_and_ended(script: Path) -> None:
    batch = Batch(said("job 3"), said())
    batch.try_out(script)
    assert batch.asked == [("bqueue", "-q", "--hold", "b.sh"), ("bend", "3")]


def test_one_question_is_asked_for_all_jobs_and_none_for_none() -> None:
    batch = Batch()
    assert set(batch.query(["1", "0", "1", "9"])) == {"0", "1"}
    assert batch.query([]) == {}
    assert batch.asked == [("bstat", "0", "1", "9")]


def test_jobs_are_found_by_name_while_they_have_not_ended() -> None:
    assert Batch().find("d-") == {"d-0": "0", "d-2": "2"}
    assert Batch().find("e-") == {}


def test_jobs_that_have_ended_before_are_ended_well() -> None:
    batch = Batch(said(err="unknown job 4\nUnknown Job 5\n", code=1))
    batch.cancel(["5", "4"])
    batch.cancel([])
    assert batch.asked == [("bend", "4", "5")]
    with pytest.raises(SchedulerBusy, match="bend: unknown job 4; not yours"):
        Batch(said(err="unknown job 4\nnot yours\n", code=1)).cancel(["4", "5"])


def test_a_question_that_fails_is_told_with_its_words() -> None:
    assert Batch(said("nodes")).output("bnodes") == "nodes"
    with pytest.raises(SchedulerBusy, match="`bnodes -l` says: nothing known"):
        Batch(said(err="bqueue: nothing known", code=2)).output("bnodes", "-l")
