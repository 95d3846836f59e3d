"""PBS Pro and OpenPBS: qsub, qstat, qdel, qselect; and what Torque shares. Measured with OpenPBS 23.06.

Their commands exit with an error's number modulo 256: 15001, an unknown job, is 153. The numbers are in
OpenPBS's pbs_error.h; Torque's commands have the same, and errno's if they do not reach the server.

qstat is asked for delimited lines, not for JSON: asked for several jobs in JSON, OpenPBS's main branch
prints the first one alone and exits with 0 (openpbs issue 2672), and an odd byte in a job's variables
can make JSON that no reader takes. A line a job is printed rightly by every version since 18.
"""

import json
import os
import pwd
import re
import shutil
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from diel.base.values import parse_size
from diel.site.scheduler.job import Job, JobState, JobStatus, SchedulerBusy, clock, mebibytes, quoted, states
from diel.site.scheduler.scheduler import (
    QUESTION,
    Answer,
    BatchScheduler,
    Dialect,
    NodeKind,
    Offer,
    Queue,
    first_lines,
    gathered,
    node_file,
)
from diel.site.scheduler.slurm import seconds

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
    """What diel asks of PBS and Torque alike. Neither can leave out nodes: `exclude` is passed over."""

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
        """Write a job's demand in the words of `-l`."""

    def is_busy(self, answer: Answer) -> bool:
        return answer.code in _BUSY_CODES or super().is_busy(answer)

    def words(self, answer: Answer) -> str:
        own = answer.out.partition("and the output was:")[2].strip(" '\n")  # Slurm's qsub quotes sbatch
        return re.sub(self.speaker, "", first_lines(own)) if own else super().words(answer)

    @abstractmethod
    def attributes(self, ids: list[str]) -> Iterable[tuple[str, Mapping[str, str]]]:
        """Id and attributes of these jobs, or of all of this user's if none is named."""

    def jobs(self, ids: list[str]) -> Iterator[tuple[str, str, JobStatus]]:
        full = {short(number): number for number in ids}
        for number, job in self.attributes(ids):
            yield full.get(short(number), number), job.get("Job_Name", ""), self.status(job)

    def status(self, job: Mapping[str, str]) -> JobStatus:
        """Return the state of a job, from its attributes."""
        letter, comment = job.get("job_state", ""), job.get("comment", "").strip()
        state, nodes = self.states.get(letter, JobState.RUNNING), hosts(job.get("exec_host", ""))
        if not state.ended:
            reason = "" if state is JobState.RUNNING and letter in self.states else comment
            hopeless = state is JobState.PENDING and "can never run" in comment.lower()
            return JobStatus(state, reason, nodes=nodes, hopeless=hopeless)
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
        if numbers := sorted(set(ids)):
            answer = self.delete(numbers)
            if answer.code not in SETTLED and answer.code not in self.ending:
                raise SchedulerBusy(f"qdel: {self.words(answer)}")

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
        """Return the nodes, as pbsnodes tells them. Raise SchedulerBusy."""

    def narrowed(self, nodes: Sequence[str], script: Path) -> Mapping[str, str | None]:
        return {"PBS_NODEFILE": node_file(nodes, script)}


def _output(job: Job, path: Path) -> str:
    """Return a file's name within the folder of submission: a colon in a path means a host."""
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
    match = re.search(r"^\s*default_queue\s*=\s*(\S+)", text, re.MULTILINE)
    default = match[1] if match else None
    return [queue._replace(default=queue.name == default) for queue in queues]


def bytes_of(text: str) -> int:
    """Return bytes of PBS's `527672492kb`, where k means 1024; 0 of what is not a size."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", text.lower())
    return parse_size(f"{match[1]}{match[2].upper()}{'i' if match[2] else ''}B") if match else 0


def short(number: str) -> str:
    """Return an id without the server's name, which qsub and qstat may write differently."""
    return number.split(".")[0]


def user() -> str:
    """Return the name of the user whose jobs these are."""
    return pwd.getpwuid(os.getuid()).pw_name


def hosts(text: str) -> str:
    """Return the nodes in `exec_host` (n1/0*4+n2/0*4), with commas between."""
    names = [part.split("/")[0] for part in text.split("+") if part.strip()]
    return ",".join(dict.fromkeys(name.strip() for name in names))


NO_HISTORY = 36
"""qstat's exit code where -x asks for a history that the server does not keep."""
_HEAD = "Job Id: "
_DELIMITER = re.compile(r"(?<!\\)\|")
_NO_MOM = re.compile(r"could not connect to MOM (\d\S*)", re.IGNORECASE)
_DELETED = " and terminated by "
"""In the comment of a job that somebody deleted while it ran."""
_LOST_NODE = re.compile(r"node .*\b(down|failed)\b", re.IGNORECASE)


class Pbs(Qsub):
    """PBS's commands."""

    commands = ("qsub", "qstat", "qdel")
    also = ("pbspro", "pbs_pro", "openpbs", "qsub")
    spread = ("pbsdsh", "--")
    hidden = "put PBS's own commands on PATH (their folder is often /opt/pbs/bin)"
    states = states(pending="Q H W T", running="R B S U", ending="E", gone="M X F")
    exit_status = "Exit_status"
    ends = {  # noqa: RUF012
        **Qsub.ends,
        -24: (JobState.FAILED, "killed: too many cores at once"),
        -25: (JobState.FAILED, "killed: too many cores"),
        -26: (JobState.OOM, "killed: too much virtual memory"),
        -27: (JobState.OOM, "killed: too much memory"),
        -28: (JobState.TIMEOUT, "killed: CPU time exceeded"),
        -29: (JobState.TIMEOUT, "killed: walltime exceeded"),
    }
    ending = (168, 202)  # 15016, a wrong state, and 15050, already exiting
    # -f: else a qsub stays in the background for two minutes, with this process's folder and variables.
    queues_by = ("qsub", "-f")

    def program(self, name: str) -> str:
        """One of its commands: the first on PATH with a qselect beside it. In its own jobs PBS comes last on
        PATH, and another dialect's qsub may hide it (Slurm has no qselect)."""
        folders = os.environ.get("PATH", "").split(os.pathsep)
        pairs = ([os.path.join(folder, command) for command in ("qselect", name)] for folder in folders)
        return next((pair[1] for pair in pairs if all(os.access(path, os.X_OK) for path in pair)), name)

    def lacking(self) -> tuple[str, ...]:
        return super().lacking() or (() if shutil.which(self.program("qselect")) else ("qselect",))

    def resources(self, job: Job) -> Iterator[str]:
        """One chunk for each node. A site that needs more in it gives its own `-l select={nodes}:…`."""
        options = " ".join(job.options)
        if "select=" not in options:
            gpus = f":ngpus={job.gpus}" if job.gpus else ""
            memory = f":mem={mebibytes(job.memory)}mb" if job.memory else ""
            # pbsdsh starts mpiprocs copies.
            yield f"select={job.nodes}:ncpus={job.cores}:mpiprocs=1{gpus}{memory}"
        if "place=" not in options:
            yield "place=scatter"

    def delete(self, ids: list[str]) -> Answer:
        answer = super().delete(ids)
        # Jobs whose node is dead: else they would stay on record as running.
        alone = _NO_MOM.findall(answer.err)
        return self.ask("qdel", "-W", "force", *alone) if alone else answer

    def attributes(self, ids: list[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
        if ids := ids or self._own():
            answer = self.ask("qstat", "-x", "-f", "-F", "dsv", *ids)
            if answer.code == NO_HISTORY:
                answer = self.ask("qstat", "-f", "-F", "dsv", *ids)
            yield from self.parse_qstat(answer, ids).items()

    def _own(self) -> list[str]:
        """Ids of this user's jobs that have not ended."""
        answer = self.ask("qselect", "-u", user())
        if answer.code != 0:
            raise SchedulerBusy(f"qselect: {self.words(answer)}")
        ids = answer.out.split()
        if not all(word[0].isdigit() for word in ids):
            raise SchedulerBusy(f"qselect answered with something else than ids: {answer.words}")
        return [number for number in ids if "[" not in number]  # arrays are never diel's

    def parse_qstat(self, answer: Answer, ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the jobs in an answer of `qstat -f -F dsv`, by id: a line for each job, `Job Id:
        5.pbs0|Job_Name=a|…`.

        Raise SchedulerBusy for what is no such answer, and if it says nothing of some of `ids`: a job
        counts as unknown only if qstat names it.
        """
        if answer.code not in SETTLED:
            raise SchedulerBusy(f"qstat: {self.words(answer)}")
        if answer.out and not answer.out.endswith("\n"):
            raise SchedulerBusy(f"qstat's answer is cut short: {answer.out[-200:]!r}")
        jobs: dict[str, dict[str, str]] = {}
        for line in answer.out.split("\n"):  # a value may hold what splitlines takes for a line's end
            head, *fields = _DELIMITER.split(line)
            pairs = (field.partition("=") for field in fields)
            job = {key: value.replace("\\|", "|") for key, _, value in pairs}
            if head.startswith(_HEAD) and "job_state" in job:
                jobs[head.removeprefix(_HEAD).strip()] = job
            elif line.strip():
                raise SchedulerBusy(f"qstat answered with something else than jobs: {line.strip()[:200]}")
        answered = {short(word) for word in (*jobs, *re.findall(r"\d+[\w.\[\]-]*", answer.err))}
        if silent := [number for number in ids if short(number) not in answered]:
            raise SchedulerBusy(f"qstat says nothing about {', '.join(silent)}: {self.words(answer)}")
        return jobs

    def status(self, job: Mapping[str, str]) -> JobStatus:
        status, comment = super().status(job), job.get("comment", "").strip()
        deleted, coded = _DELETED in comment, status.state is not JobState.GONE
        match job.get("job_state"):
            case "R" if deleted:  # it stays R until its processes have ended
                return status._replace(state=JobState.ENDING, reason=comment)
            case "M":
                return status._replace(state=JobState.GONE, reason="moved to another server")
            case "X" | "F" if not coded and _LOST_NODE.search(comment):
                return status._replace(state=JobState.NODE_FAILED, reason=comment)
            case "X" | "F" if not coded and not status.nodes:  # or the job that it waited for failed
                return JobStatus(JobState.CANCELLED, comment or "deleted before it ran")
            case "X" | "F" if coded and deleted:
                # A script whose child was killed first can end on its own, even with 0.
                return status._replace(state=JobState.CANCELLED, reason=comment)
        return status

    def dialect(self) -> Dialect | None:
        if shutil.which(self.program("qstat")) is None:
            return None
        version = self.ask("qstat", "--version", timeout=QUESTION)
        words = re.search(r"pbs_version\s*=\s*(\S+)", version.out + version.err)
        if version.code != 0 or words is None:
            return None
        self.output("qstat", "-B")
        return Dialect(words[1])

    def nodes(self) -> list[NodeKind]:
        return parse_nodes(self.output("pbsnodes", "-a", "-F", "json", timeout=2 * QUESTION))


def parse_nodes(text: str) -> list[NodeKind]:
    """Of `pbsnodes -a -F json`."""
    try:
        nodes = json.loads(text).get("nodes", {})
    except (ValueError, AttributeError):
        return []
    sharing = Counter(_host(node) for node in nodes.values())
    kinds = []
    for node in nodes.values():
        has: Mapping[str, Any] = node.get("resources_available", {})
        cpus, gpus = (int(has.get(name, 0) or 0) for name in ("ncpus", "ngpus"))
        physical, shared = int(node.get("pcpus", 0) or 0), sharing[_host(node)]
        memory = bytes_of(str(has.get("mem", "")))
        kinds.append(NodeKind("", 1, cpus, cpus, memory, gpus, physical, shared))
    return gathered(kinds)


def _host(node: Mapping[str, Any]) -> str:
    """Return the host of a vnode; a name of its own if PBS does not say."""
    return str(node.get("resources_available", {}).get("host") or node.get("Mom") or id(node))
