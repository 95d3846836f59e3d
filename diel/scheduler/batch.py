"""What diel's own schedulers share: how to queue a script, and how to judge answers of commands."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from diel.scheduler.job import Job, JobStatus, SchedulerBusy, SchedulerRefused, check_outputs, quoted
from diel.scheduler.scheduler import QUESTION, Answer, Scheduler


class BatchScheduler(Scheduler):
    """A scheduler with commands that print text: facts about them, and one method that reads jobs."""

    queues_by: ClassVar[tuple[str, ...]]
    """The command that queues a script, with the options that it always has."""
    held: ClassVar[tuple[str, ...]] = ()
    """Its options for a job that is looked at and never begins."""
    ends_by: ClassVar[tuple[str, ...]]
    """The command that ends jobs."""
    accepted: ClassVar[str]
    """Regular expression of a queued job's id in what it prints: sites print greetings before it."""
    outputs: ClassVar[str]
    """Lines of a script that name files of output."""
    busy: ClassVar[str]
    """What its commands say if the server was not reached, so that asking again may help."""
    settled: ClassVar[str]
    """What they say about jobs that have ended or are unknown."""
    speaker: ClassVar[str]
    """The name of the program that begins a line of theirs: it is left out of messages."""

    @abstractmethod
    def options(self, job: Job) -> Iterable[tuple[str, object]]:
        """Its directives, each with its value; those without a value are left out."""

    def directives(self, job: Job) -> Iterator[str]:
        quoted(job.folder)  # outputs are there, whether or not they name it
        yield from (option.format(value) for option, value in self.options(job) if value)
        yield from job.extra

    @abstractmethod
    def jobs(self, ids: list[str]) -> Iterable[tuple[str, str, JobStatus]]:
        """Id, name and state of these jobs, or this user's if none is given. Raises SchedulerBusy."""

    def try_out(self, script: Path) -> None:
        self.cancel([self.queue(*self.held, script=script)])

    def submit(self, script: Path) -> str:
        check_outputs(script, re.compile(self.outputs, re.MULTILINE))
        return self.queue(script=script)

    def queue(self, *words: str, script: Path) -> str:
        """Queues a script from its folder, with further options; returns the job's id."""
        answer = self.hand_over(script, *self.queues_by, *words)
        if answer.code != 0:
            raise self.refusal(answer)
        ids = re.findall(self.accepted, answer.out, re.MULTILINE)
        if not ids:
            raise SchedulerBusy(f"{self.queues_by[0]} printed no id of a job: {answer.words}")
        return str(ids[-1])

    def hand_over(self, script: Path, *words: str) -> Answer:
        return self.ask(*words, script.name, folder=script.parent)

    def refusal(self, answer: Answer) -> SchedulerBusy | SchedulerRefused:
        """Why a script was not queued: whether asking again helps."""
        error = SchedulerBusy if self.is_busy(answer) else SchedulerRefused
        return error(f"{self.queues_by[0]}: {self.told(answer)}")

    def is_busy(self, answer: Answer) -> bool:
        """Whether the server was not reached, or could not answer."""
        return (
            answer.code < 0 or re.search(self.busy, f"{answer.err}\n{answer.out}", re.IGNORECASE) is not None
        )

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        wanted = sorted(set(ids))
        return (
            {number: status for number, _, status in self.jobs(wanted) if number in wanted} if wanted else {}
        )

    def cancel(self, ids: Iterable[str]) -> None:
        if wanted := sorted(set(ids)):
            answer = self.ask(*self.ends_by, *wanted)
            lines = [line for line in (answer.out + answer.err).splitlines() if line.strip()]
            settled = lines and all(re.search(self.settled, line, re.IGNORECASE) for line in lines)
            if answer.code != 0 and not settled:
                raise SchedulerBusy(f"{self.ends_by[0]}: {self.told(answer)}")

    def find(self, prefix: str) -> Mapping[str, str]:
        found = ((number, name) for number, name, status in self.jobs([]) if not status.state.ended)
        return {name: number for number, name in found if name.startswith(prefix)}

    def told(self, answer: Answer) -> str:
        """The scheduler's own words."""
        return re.sub(self.speaker, "", answer.words)

    def output(self, *words: str, timeout: float = QUESTION) -> str:
        """What one of its commands answers to a question about the cluster. Raises SchedulerBusy."""
        answer = self.ask(*words, timeout=timeout)
        if answer.code != 0:
            raise SchedulerBusy(f"`{' '.join(words)}` says: {self.told(answer)}")
        return answer.out
