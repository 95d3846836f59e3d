"""What diel's own schedulers share: how a script is queued, and how answers of commands are judged."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from diel.scheduler.command import QUESTION, Answer
from diel.scheduler.job import JobStatus, SchedulerBusy, SchedulerRefused, check_outputs
from diel.scheduler.scheduler import Scheduler


class BatchScheduler(Scheduler):
    """A scheduler of commands that print text: facts about these, and one method that reads jobs."""

    queues_by: ClassVar[tuple[str, ...]]
    """The command that queues a script, with the options that it always has."""
    held: ClassVar[tuple[str, ...]] = ()
    """Its options for a job that is looked at and never begins."""
    ends_by: ClassVar[tuple[str, ...]]
    """The command that ends jobs."""
    accepted: ClassVar[re.Pattern[str]]
    """Where the id of a queued job is in what it prints: sites print greetings before it."""
    outputs: ClassVar[re.Pattern[str]]
    """Lines of a script that name files of output."""
    busy: ClassVar[re.Pattern[str]]
    """What its commands say if the server was not reached, so that asking again may help."""
    settled: ClassVar[re.Pattern[str]]
    """What they say of jobs that have ended or are not known."""
    speaker: ClassVar[re.Pattern[str]]
    """The name of the program that begins a line of theirs: it is left out of messages."""

    @abstractmethod
    def jobs(self, ids: list[str]) -> Iterable[tuple[str, str, JobStatus]]:
        """Id, name and state of these jobs, or of all of this user's if none is named.

        Others may be among them, and those that have ended. Raises SchedulerBusy.
        """

    def try_out(self, script: Path) -> None:
        self.cancel([self.queue(*self.held, script=script)])

    def submit(self, script: Path) -> str:
        check_outputs(script, self.outputs)
        return self.queue(script=script)

    def queue(self, *words: str, script: Path) -> str:
        """Queues a script from its folder, with further options; returns the job's id."""
        answer = self.hand_over(script, *self.queues_by, *words)
        if answer.code != 0:
            raise self.refusal(answer)
        ids = self.accepted.findall(answer.out)
        if not ids:
            raise SchedulerBusy(f"{self.queues_by[0]} printed no id of a job: {answer.words}")
        return str(ids[-1])

    def hand_over(self, script: Path, *words: str) -> Answer:
        return self.ask(*words, script.name, folder=script.parent)

    def refusal(self, answer: Answer) -> SchedulerBusy | SchedulerRefused:
        """Why a script was not queued: whether it is of use to ask again."""
        error = SchedulerBusy if self.is_busy(answer) else SchedulerRefused
        return error(f"{self.queues_by[0]}: {self.told(answer)}")

    def is_busy(self, answer: Answer) -> bool:
        """Whether the server was not reached, or could not answer."""
        return answer.code < 0 or bool(self.busy.search(f"{answer.err}\n{answer.out}"))

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        wanted = sorted(set(ids))
        return (
            {number: status for number, _, status in self.jobs(wanted) if number in wanted} if wanted else {}
        )

    def cancel(self, ids: Iterable[str]) -> None:
        if wanted := sorted(set(ids)):
            answer = self.ask(*self.ends_by, *wanted)
            lines = [line for line in (answer.out + answer.err).splitlines() if line.strip()]
            if answer.code != 0 and not (lines and all(map(self.settled.search, lines))):
                raise SchedulerBusy(f"{self.ends_by[0]}: {self.told(answer)}")

    def find(self, prefix: str) -> Mapping[str, str]:
        found = ((number, name) for number, name, status in self.jobs([]) if not status.state.ended)
        return {name: number for number, name in found if name.startswith(prefix)}

    def told(self, answer: Answer) -> str:
        """The scheduler's own words."""
        return self.speaker.sub("", answer.words)

    def output(self, *words: str, timeout: float = QUESTION) -> str:
        """What one of its commands answers to a question about the cluster. Raises SchedulerBusy."""
        answer = self.ask(*words, timeout=timeout)
        if answer.code != 0:
            raise SchedulerBusy(f"`{' '.join(words)}` says: {self.told(answer)}")
        return answer.out
