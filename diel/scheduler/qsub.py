"""What PBS and Torque share: directives, submission, errors, how jobs end. Their answers are their own.

Their commands exit with an error's number modulo 256: 15001, an unknown job, is 153. The numbers are in
OpenPBS's pbs_error.h; Torque's commands have the same, and errno's if they do not reach the server.
"""

from __future__ import annotations

import os
import pwd
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from diel.scheduler.batch import BatchScheduler
from diel.scheduler.job import Job, JobState, JobStatus, SchedulerBusy, clock, quoted
from diel.scheduler.scheduler import QUESTION, Answer, NodeKind, Offer, Queue, first_lines, node_file
from diel.scheduler.slurm import seconds
from diel.values import parse_size

SETTLED = frozenset({0, 35, 153})
"""Exit codes for states of jobs: all is well, one is history, one is unknown."""
_BUSY_CODES = frozenset(
    {
        255,  # no server
        13,  # 15117: its table of connections is full
        57,  # 15161: it cannot save the job
        104,  # 15208: try again later
        110,  # errno: timed out
        111,  # errno: connection refused
        113,  # errno: no route to host
        162,  # 15010: system error
        163,  # 15011: internal error
        183,  # 15031: protocol error
        185,  # 15033: no free connections
        186,  # 15034: no server to connect to
        212,  # 15060: it is shutting down
    }
)


class Qsub(BatchScheduler):
    """What diel asks of both in the same words.

    Neither can leave out nodes: `exclude` of a job is passed over.
    """

    states: ClassVar[Mapping[str, JobState]]
    """Letters of job_state. How a job ended is in its exit status."""
    ends: ClassVar[Mapping[int, tuple[JobState, str]]] = {
        0: (JobState.COMPLETED, ""),
        265: (JobState.CANCELLED, "killed by signal 9"),
        271: (JobState.CANCELLED, "killed by signal 15, as qdel does"),
    }
    """Exit statuses that are not the script's own; others below 0 are failures of the node."""
    exit_status: ClassVar[str] = "exit_status"
    ending: ClassVar[tuple[int, ...]]
    """qdel's exit codes for a job that is ending."""
    sentinel = "#PBS"
    prologue = (
        "# The number of cores of a node, which is not that of a task.",
        "unset OMP_NUM_THREADS NCPUS",
    )
    private: ClassVar[tuple[str, ...]] = ("PBS_",)
    public: ClassVar[tuple[str, ...]] = ("PBS_CONF_FILE", "PBS_DEFAULT", "PBS_SERVER", "PBS_EXEC")
    job_variables: ClassVar[tuple[str, ...]] = ("PBS_JOBID",)
    hosts = 'cat "$PBS_NODEFILE"'
    share: Sequence[str] = (
        "sh",
        "-c",
        'for number in $DIEL_NODE_NUMBERS; do pbsdsh -n "$number" -- "$@" & done; wait',
        "spread",
    )
    elsewhere = ("-q",)
    queues_by: ClassVar[tuple[str, ...]] = ("qsub",)
    # qsub has no other way to say whether it takes a script: the job of a trial is held, and deleted.
    held = ("-h",)
    ends_by = ("qdel",)
    accepted = r"^(\d+[\w.\-]*)\s*$"
    outputs = r"^#PBS -[oe] (.+)$"
    busy = (
        r"cannot connect to|connection refused|timed out|end of file|communication failure"
        r"|no free connections|server shutting down|premature end|try again"
        r"|unable to contact slurm controller|pbs_iff"
    )
    speaker = r"\b(qsub|qstat|qdel|qselect|sbatch): (error: )?"

    def options(self, job: Job) -> Iterable[tuple[str, object]]:
        return (
            ("-N {}", job.name),
            ("-S /bin/bash", True),
            ("-o {}", _output(job, job.stdout)),
            ("-e {}", _output(job, job.stderr)),
            ("-q {}", job.queue),
            ("-A {}", job.account),
            *(("-l {}", words) for words in self.resources(job)),
            ("-l walltime={}", clock(job.walltime)),  # without it a job may run for ever
            ("-W depend=afterany:{}", job.after),
            ("-r n", True),  # one id is one run of the script: else a restarted node would run it again
        )

    @abstractmethod
    def resources(self, job: Job) -> Iterable[str]:
        """What a job asks for, in the words of `-l`."""

    def is_busy(self, answer: Answer) -> bool:
        return answer.code in _BUSY_CODES or super().is_busy(answer)

    def told(self, answer: Answer) -> str:
        own = answer.out.partition("and the output was:")[2].strip(" '\n")  # Slurm's qsub quotes sbatch
        return re.sub(self.speaker, "", first_lines(own)) if own else super().told(answer)

    @abstractmethod
    def attributes(self, ids: list[str]) -> Iterable[tuple[str, Mapping[str, str]]]:
        """Id and attributes of these jobs, or of all of this user's if none is named."""

    def jobs(self, ids: list[str]) -> Iterator[tuple[str, str, JobStatus]]:
        asked = {short(number): number for number in ids}
        for number, job in self.attributes(ids):
            yield asked.get(short(number), number), job.get("Job_Name", ""), self.status(job)

    def status(self, job: Mapping[str, str]) -> JobStatus:
        """The state of a job, from its attributes."""
        letter, comment = job.get("job_state", ""), job.get("comment", "").strip()
        state, nodes = self.states.get(letter, JobState.RUNNING), hosts(job.get("exec_host", ""))
        if not state.ended:
            told = "" if state is JobState.RUNNING and letter in self.states else comment
            hopeless = state is JobState.PENDING and "can never run" in comment.lower()
            return JobStatus(state, told, nodes=nodes, hopeless=hopeless)
        code = job.get(self.exit_status, "")
        if not re.fullmatch(r"-?\d+", code):
            return JobStatus(JobState.GONE, comment or "ended, but qstat does not say how", nodes=nodes)
        return self._ended(int(code), comment, nodes)

    def _ended(self, code: int, comment: str, nodes: str) -> JobStatus:
        if code in self.ends:
            state, words = self.ends[code]
        elif code < 0:
            state, words = JobState.NODE_FAILED, f"could not run on its node: exit status {code}"
        else:
            state = JobState.FAILED
            words = f"killed by signal {code - 256}" if code > 256 else f"exit code {code}"
        own = code if 0 <= code < 256 else code - 128 if code > 256 else None
        comments = (words, comment if state is not JobState.COMPLETED else "")
        return JobStatus(state, "; ".join(filter(None, comments)), own, nodes)

    def cancel(self, ids: Iterable[str]) -> None:
        if wanted := sorted(set(ids)):
            answer = self.delete(wanted)
            if answer.code not in SETTLED and answer.code not in self.ending:
                raise SchedulerBusy(f"qdel: {self.told(answer)}")

    def delete(self, ids: list[str]) -> Answer:
        return self.ask("qdel", *ids)

    def offer(self) -> Offer:
        queues = parse_queues(self.output("qstat", "-Q", "-f", timeout=2 * QUESTION))
        with suppress(SchedulerBusy):  # some have no such question: then none is known to be the default
            queues = parse_server(self.output("qstat", "-B", "-f", timeout=2 * QUESTION), queues)
        try:
            return Offer(queues, self.nodes())
        except SchedulerBusy:
            return Offer(queues)  # many sites keep it from users

    @abstractmethod
    def nodes(self) -> list[NodeKind]:
        """The nodes, as pbsnodes tells them. Raises SchedulerBusy."""

    def narrowed(self, nodes: Sequence[str], script: Path) -> Mapping[str, str | None]:
        return {"PBS_NODEFILE": node_file(nodes, script)}


def _output(job: Job, path: Path) -> str:
    """A file's name within the folder, from where the job is submitted: a colon in a path means a host."""
    plain = path.parent == job.folder and re.fullmatch(r"[\w.+-]+", path.name, re.ASCII)
    return path.name if plain else quoted(path)


def parse_queues(text: str) -> list[Queue]:
    """Of `qstat -Q -f`, or of the table that some answer with."""
    queues = []
    for block in re.split(r"^(?=Queue:)", text, flags=re.MULTILINE):
        name = re.match(r"Queue:\s*(\S+)", block)
        if name:
            limit = re.search(r"resources_max\.walltime\s*=\s*([\d:]+)", block)
            queues.append(Queue(name[1], seconds(limit[1]) if limit else None))
    if queues:
        return queues
    rows = re.split(r"^-{3}.*$", text, maxsplit=1, flags=re.MULTILINE)
    return [Queue(line.split()[0]) for line in rows[-1].splitlines() if line.strip()] if len(rows) > 1 else []


def parse_server(text: str, queues: list[Queue]) -> list[Queue]:
    """Of `qstat -B -f`: the queues, with the default one marked."""
    told = re.search(r"^\s*default_queue\s*=\s*(\S+)", text, re.MULTILINE)
    default = told[1] if told else None
    return [queue._replace(default=queue.name == default) for queue in queues]


def bytes_of(text: str) -> int:
    """Bytes of PBS's `527672492kb`, where k means 1024; 0 of what is not a size."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", text.lower())
    return parse_size(f"{match[1]}{match[2].upper()}{'i' if match[2] else ''}B") if match else 0


def short(number: str) -> str:
    """An id without the server's name, which qsub and qstat may write differently."""
    return number.split(".")[0]


def user() -> str:
    """The name of the user whose jobs these are."""
    return pwd.getpwuid(os.getuid()).pw_name


def hosts(text: str) -> str:
    """The nodes in `exec_host` (n1/0*4+n2/0*4), with commas between."""
    names = [part.split("/")[0] for part in text.split("+") if part.strip()]
    return ",".join(dict.fromkeys(name.strip() for name in names))
