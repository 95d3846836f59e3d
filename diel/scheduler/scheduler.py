"""What every scheduler does for diel. Adding one is one small file that does the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from diel.errors import DielError
from diel.scheduler.job import Job, JobStatus


class SchedulerBusy(DielError):
    """The scheduler does not answer, or not with sense: ask again later. It says nothing of any job."""


class SchedulerRefused(DielError):
    """The scheduler answered, and refuses a job: asking again as before is of no use."""


class Scheduler(Protocol):
    """A scheduler: a script template, a state table and a parser."""

    @property
    def spread(self) -> tuple[str, ...]:
        """Words that start a program once on each node of a job; {nodes} is put in.

        Only Slurm's hands on the job's environment and folder: the program sets what it needs.
        """

    def script(self, job: Job) -> str:
        """The whole job script. Pure. Raises SchedulerRefused for a path that none can hold."""

    def try_out(self, script: Path) -> None:
        """Has it say whether it would take this script; no job of it is left, and nothing of it runs.

        Raises SchedulerRefused where it does not, and SchedulerBusy.
        """

    def submit(self, script: Path) -> str:
        """Queues a script from its folder; returns the job's id. Raises SchedulerBusy and SchedulerRefused.

        After SchedulerBusy the job may be queued all the same: `find` by its name tells.
        """

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        """How jobs stand, by one batched question; a job that is not in the answer is gone.

        Raises SchedulerBusy.
        """

    def cancel(self, ids: Iterable[str]) -> None:
        """Ends jobs; those that have ended already are left alone. Raises SchedulerBusy."""

    def find(self, prefix: str) -> Mapping[str, str]:
        """Ids of this user's jobs that have not ended and whose names begin so, by name.

        Raises SchedulerBusy.
        """
