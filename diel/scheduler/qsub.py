"""What PBS and Torque share: directives, submission, errors. Their states and answers are their own.

Their commands exit with an error's number modulo 256: 15001, an unknown job, is 153. The numbers are in
OpenPBS's pbs_error.h; Torque's commands have the same, and errno's where they do not reach the server.
"""

from __future__ import annotations

import os
import pwd
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from diel.scheduler.command import Answer, first_lines
from diel.scheduler.directives import check_outputs, clock, options, quoted, seconds
from diel.scheduler.job import Job, SchedulerBusy, SchedulerRefused
from diel.scheduler.nodes import NodeKind, Offer, Queue
from diel.scheduler.scheduler import Scheduler, node_file
from diel.values import parse_size

UNKNOWN = 153
"""No such job."""
FINISHED = 35
"""A job that is history."""
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
_BUSY_WORDS = re.compile(
    r"cannot connect to|connection refused|timed out|end of file|communication failure|no free connections"
    r"|server shutting down|premature end|try again|unable to contact slurm controller|pbs_iff",
    re.IGNORECASE,
)
OUTPUT = re.compile(r"^#PBS -[oe] (.+)$", re.MULTILINE)


class Qsub(Scheduler):
    """What diel asks of both by the same words.

    Neither can leave out nodes: `exclude` of a job is passed over.
    """

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
    qsub: ClassVar[tuple[str, ...]] = ("qsub",)
    """The command that queues a script, with the options that it always has."""

    def directives(self, job: Job) -> Iterator[str]:
        quoted(job.folder)  # outputs are there, whether or not they name it
        yield f"-N {job.name}"
        yield "-S /bin/bash"
        yield f"-o {_output(job, job.stdout)}"
        yield f"-e {_output(job, job.stderr)}"
        if job.queue:
            yield f"-q {job.queue}"
        if job.account:
            yield f"-A {job.account}"
        yield from (f"-l {words}" for words in self.resources(job))
        yield f"-l walltime={clock(job.walltime)}"  # there is no default: without it a job may run for ever
        if job.after:
            yield f"-W depend=afterany:{job.after}"
        yield "-r n"  # one id is one run of the script: else a restarted node would run it again
        yield from options(job.options, job.nodes)

    @abstractmethod
    def resources(self, job: Job) -> Iterable[str]:
        """What a job asks for, in the words of `-l`."""

    def try_out(self, script: Path) -> None:
        # qsub has no other way to say whether it takes a script: the job of this trial is held, and deleted.
        self.cancel([self.queue("-h", script=script)])

    def submit(self, script: Path) -> str:
        check_outputs(script, OUTPUT)
        return self.queue(script=script)

    def queue(self, *words: str, script: Path) -> str:
        """Queues a script from its folder, with further options; returns the job's id."""
        answer = self.ask(*self.qsub, *words, script.name, folder=script.parent)
        if answer.code != 0:
            busy = failed_to_answer(answer)
            raise (SchedulerBusy if busy else SchedulerRefused)(f"qsub: {told(answer)}")
        ids = re.findall(r"^(\d+[\w.\-]*)\s*$", answer.out, re.MULTILINE)
        if not ids:
            raise SchedulerBusy(f"qsub printed no id of a job: {answer.words}")
        return str(ids[-1])

    # --- this machine -------------------------------------------------------------------------------

    def offer(self) -> Offer:
        queues = parse_queues(self.output("qstat", "-Q", "-f"))
        with suppress(SchedulerBusy):  # some have no such question: then none is known to be the default
            queues = parse_server(self.output("qstat", "-B", "-f"), queues)
        try:
            return Offer(queues, self.nodes())
        except SchedulerBusy:
            return Offer(queues)  # many sites keep it from users

    @abstractmethod
    def nodes(self) -> list[NodeKind]:
        """The nodes, as pbsnodes tells them. Raises SchedulerBusy."""

    # --- within a job of it -------------------------------------------------------------------------

    def narrowed(self, nodes: Sequence[str], script: Path) -> Mapping[str, str | None]:
        return {"PBS_NODEFILE": node_file(nodes, script)}


def _output(job: Job, path: Path) -> str:
    """A file's name within the folder, from where the job is submitted: a colon in a path means a host."""
    name = path.name if path.parent == job.folder else None
    if name is not None and re.fullmatch(r"[\w.+-]+", name, re.ASCII):
        return name
    return quoted(path)


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
    """Of `qstat -B -f`: the queues, with the one known to which jobs go that name none."""
    told = re.search(r"^\s*default_queue\s*=\s*(\S+)", text, re.MULTILINE)
    default = told[1] if told else None
    return [replace(queue, default=queue.name == default) for queue in queues]


def bytes_of(text: str) -> int:
    """Bytes of PBS's `527672492kb`, where k means 1024; 0 of what is no size."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", text.lower())
    return parse_size(f"{match[1]}{match[2].upper()}{'i' if match[2] else ''}B") if match else 0


def failed_to_answer(answer: Answer) -> bool:
    """Whether the server was not reached, or could not answer, so that asking again may help."""
    return answer.code < 0 or answer.code in _BUSY_CODES or bool(_BUSY_WORDS.search(answer.err + answer.out))


def told(answer: Answer) -> str:
    """The scheduler's own words, without the name of the program that begins them."""
    own = answer.out.partition("and the output was:")[2].strip(" '\n")  # Slurm's qsub quotes sbatch
    text = first_lines(own) or answer.words
    return re.sub(r"\b(qsub|qstat|qdel|qselect|sbatch): (error: )?", "", text)


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
