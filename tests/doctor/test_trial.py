"""The tiny job that is tried in each pool: what is told of it, and that none is left.

How it goes with a real scheduler is in test_site.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from diel.doctor import trial
from diel.doctor.machine import Finding
from diel.doctor.trial import Report
from diel.site.scheduler import Job, JobState, JobStatus, SchedulerBusy, SchedulerRefused
from diel.site.site import Site


class Queue:
    """A scheduler that takes each job and says of it what a test wants."""

    def __init__(self) -> None:
        self.status: JobStatus | None = JobStatus(JobState.PENDING, "Priority")
        self.refusal: Exception | None = None
        self.left: dict[str, str] = {}
        """What a job leaves in its folder, by suffix."""
        self.jobs: list[Job] = []
        self.cancelled: list[str] = []

    def script(self, job: Job) -> str:
        self.jobs.append(job)
        return "#!/bin/sh\n"

    def submit(self, script: Path) -> str:
        if self.refusal is not None:
            raise self.refusal
        for suffix, text in self.left.items():
            script.with_suffix(suffix).write_text(text)
        return f"j{len(self.jobs)}"

    def query(self, ids: list[str]) -> Mapping[str, JobStatus]:
        return {} if self.status is None else dict.fromkeys(ids, self.status)

    def cancel(self, ids: list[str]) -> None:
        self.cancelled += ids


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    monkeypatch.setattr(trial, "scheduler_named", lambda name: made)
    monkeypatch.setattr(trial, "LAG", 0.0)
    return made


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pools in which a real run is tried."""
    pools: list[str] = []

    def note(site: Site, name: str | None, good: list[str], *_: object) -> Iterator[Finding]:
        pools.extend(good)
        yield from ()

    monkeypatch.setattr(trial, "_try_runs", note)
    return pools


def tried(runs: Path, *, wait: float = 0.0, **pool: Any) -> list[Finding]:
    pools = {"cpu": {"cores": 4, **pool}}
    site = Site.model_validate({"name": "s", "scheduler": "slurm", "account": "acc", "pools": pools})
    return list(trial.try_jobs(site, None, ["cpu"], runs, wait, lambda line: None))


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert list(tmp_path.iterdir()) == []


def test_a_job_asks_for_one_core_of_one_node_for_minutes_and_else_as_the_pool(
    queue: Queue, ran: list[str], tmp_path: Path
) -> None:
    tried(
        tmp_path,
        block_nodes=8,
        nodes=8,
        gpus=4,
        queue="short",
        options=["--x"],
        walltime="2m",
        max_walltime="2m",
    )
    (job,) = queue.jobs
    assert (job.nodes, job.cores, job.gpus, job.walltime) == (1, 1, 1, 120.0)
    assert (job.queue, job.account, job.options) == ("short", "acc", ("--x",))
    *variables, program = job.command.splitlines()
    (token,) = (text.partition("=")[2] for text in variables if "DIEL_DOCTOR_TOKEN=" in text)
    assert token not in program, "everybody on the node can see what a program is called with"


def test_a_job_that_still_waits_is_cancelled_and_is_no_fault(
    queue: Queue, ran: list[str], tmp_path: Path
) -> None:
    (found,) = tried(tmp_path)
    assert (found.name, found.ok, found.required) == ("cpu: job", False, False)
    assert "j1 is pending (Priority) after" in found.found
    assert queue.cancelled == ["j1"]
    assert ran == []


def test_a_job_that_can_never_run_is_not_waited_for(queue: Queue, ran: list[str], tmp_path: Path) -> None:
    queue.status = JobStatus(JobState.PENDING, "QOSMaxCpu", hopeless=True)
    (found,) = tried(tmp_path, wait=60.0)
    assert (found.found, found.required) == ("j1 can never run: QOSMaxCpu", True)
    assert "fix pool 'cpu'" in found.fix


@pytest.mark.parametrize(("nodes", "required"), [(1, True), (2, False)])
def test_a_refusal_says_something_of_a_pool_whose_blocks_are_one_node(
    queue: Queue, ran: list[str], tmp_path: Path, nodes: int, required: bool
) -> None:
    queue.refusal = SchedulerRefused("invalid partition")
    (found,) = tried(tmp_path, block_nodes=nodes, nodes=nodes)
    assert (found.found, found.required) == ("the scheduler refuses it: invalid partition", required)


def test_a_scheduler_that_does_not_answer_may_do_so_later(
    queue: Queue, ran: list[str], tmp_path: Path
) -> None:
    queue.refusal = SchedulerBusy("timed out")
    (found,) = tried(tmp_path)
    assert (found.found, found.fix) == ("the scheduler does not take it: timed out", "try again later")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (JobStatus(JobState.FAILED, exit_code=127), "j1 ended as failed, exit code 127 without a report"),
        (None, "j1 is gone without a report"),
    ],
)
def test_a_job_without_a_report_is_told_with_its_last_words(
    queue: Queue, ran: list[str], tmp_path: Path, status: JobStatus | None, told: str
) -> None:
    queue.status, queue.left = status, {".err": "a\nb\n\nc\nd: not found\n"}
    (found,) = tried(tmp_path, wait=60.0)
    assert found.found == f"{told}; it says: b / c / d: not found"
    queue.left = {}
    (found,) = tried(tmp_path, wait=60.0)
    assert found.found.endswith("; none of its output is visible here")


def test_a_report_in_its_file_is_enough_and_a_run_is_tried_where_nothing_is_wrong(
    queue: Queue, ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.status = JobStatus(JobState.COMPLETED)
    queue.left = {".json": Report(pool="p0", host="n7").model_dump_json()}
    heard = [Finding("cpu: cores", True, "4")]
    monkeypatch.setattr(trial, "read_report", lambda *_: heard)
    first, second = tried(tmp_path, wait=60.0)
    assert first.found.startswith("j1 reported from n7 ")
    assert (first.ok, second) == (True, heard[0])
    assert ran == ["cpu"]
    heard.append(Finding("cpu: cores", False, "2"))
    tried(tmp_path, wait=60.0)
    assert ran == ["cpu"]
