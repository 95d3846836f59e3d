"""A scheduler that only keeps a list: it may be busy for a while, refuse, or queue what it did not confirm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from diel.site.scheduler import Job, JobState, JobStatus, Scheduler, SchedulerBusy, SchedulerRefused


class Pretend(Scheduler):
    """What a scheduler's commands do, without any."""

    spread = ("each", "{nodes}")
    share = ("each",)

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, str] = {}
        """Names by id."""
        self.states: dict[str, JobState] = {}
        self.busy = 0
        """How many more questions it does not answer."""
        self.refuses: str | None = None
        """Words of scripts that it does not take."""
        self.silent_queueing = False
        """Whether the next job is queued although the answer never comes."""
        self.deaf = False
        """Whether it takes cancellations and does nothing."""
        self.cancelled: list[str] = []

    def directives(self, job: Job) -> Iterable[str]:
        return ()

    def script(self, job: Job) -> str:
        lines = [f"#name {job.name}", f"#nodes {job.nodes} cores {job.cores} time {job.walltime:.0f}"]
        lines += [f"#queue {job.queue} account {job.account} after {job.after}", *job.options, *job.setup]
        return "\n".join([*lines, job.command]) + "\n"

    def try_out(self, script: Path) -> None:
        if self.refuses is not None and self.refuses in script.read_text():
            raise SchedulerRefused("no such account")

    def submit(self, script: Path) -> str:
        self.try_out(script)
        if not self.silent_queueing:
            self._ask()
        number = self.add(script.read_text().splitlines()[0].removeprefix("#name "))
        if self.silent_queueing:
            self.silent_queueing = False
            raise SchedulerBusy("timed out")
        return number

    def add(self, name: str, state: JobState = JobState.PENDING) -> str:
        number = str(100 + len(self.jobs))
        self.jobs[number] = name
        self.states[number] = state
        return number

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        self._ask()
        return {number: JobStatus(self.states[number], "Priority") for number in ids if number in self.jobs}

    def cancel(self, ids: Iterable[str]) -> None:
        self._ask()
        for number in ids:
            self.cancelled.append(number)
            if not self.deaf and not self.states[number].ended:
                self.states[number] = JobState.CANCELLED

    def find(self, prefix: str) -> Mapping[str, str]:
        self._ask()
        jobs = self.jobs.items()
        return {name: n for n, name in jobs if name.startswith(prefix) and not self.states[n].ended}

    def _ask(self) -> None:
        if self.busy:
            self.busy -= 1
            raise SchedulerBusy("slurmctld does not answer")
