"""PBS Pro and OpenPBS: qsub, qstat, qdel, qselect. Measured with OpenPBS 23.06.

qstat is asked for delimited lines, not for JSON: asked for several jobs in JSON, OpenPBS's main branch
prints the first one alone and exits with 0 (openpbs issue 2672), and an odd byte in a job's environment
can make JSON that no reader takes. A line a job is printed rightly by every version since 18.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from diel.scheduler import qsub
from diel.scheduler.command import QUESTION, Answer
from diel.scheduler.directives import mebibytes
from diel.scheduler.job import Job, JobState, JobStatus, SchedulerBusy
from diel.scheduler.nodes import Dialect, NodeKind, gathered
from diel.scheduler.qsub import Qsub

STATES: Mapping[str, JobState] = {
    "Q": JobState.PENDING,
    "H": JobState.PENDING,
    "W": JobState.PENDING,
    "T": JobState.PENDING,
    "R": JobState.RUNNING,
    "B": JobState.RUNNING,
    "S": JobState.RUNNING,
    "U": JobState.RUNNING,
    "E": JobState.ENDING,
    "M": JobState.GONE,
    "X": JobState.GONE,
    "F": JobState.GONE,
}
"""PBS's letters for a job's state. How a job in F ended is in its Exit_status."""

ENDS: Mapping[int, tuple[JobState, str]] = {
    0: (JobState.COMPLETED, ""),
    265: (JobState.CANCELLED, "killed by signal 9"),
    271: (JobState.CANCELLED, "killed by signal 15, as qdel does"),
    -24: (JobState.FAILED, "killed: too many cores at once"),
    -25: (JobState.FAILED, "killed: too many cores"),
    -26: (JobState.OOM, "killed: too much virtual memory"),
    -27: (JobState.OOM, "killed: too much memory"),
    -28: (JobState.TIMEOUT, "killed: CPU time exceeded"),
    -29: (JobState.TIMEOUT, "killed: walltime exceeded"),
}
"""Values of Exit_status that are not the script's own; -1 to -23 are failures of the node."""

NO_HISTORY = 36
"""qstat's exit code where -x asks for a history that the server does not keep."""
_HEAD = "Job Id: "
_DELIMITER = re.compile(r"(?<!\\)\|")
_ENDING = (168, 202)
"""qdel's exit codes for a job that is ending: 15016, a wrong state, and 15050, already exiting."""
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
    # -f: else a qsub stays in the background for two minutes, with this process's folder and variables.
    qsub = ("qsub", "-f")

    def program(self, name: str) -> str:
        """One of its commands: the first on PATH with a qselect beside it.

        In its own jobs PBS comes last on PATH, and another dialect's qsub may hide it (Slurm has no qselect).
        """
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            if all(os.access(os.path.join(folder, one), os.X_OK) for one in ("qselect", name)):
                return os.path.join(folder, name)
        return name

    def lacking(self) -> tuple[str, ...]:
        return super().lacking() or (() if shutil.which(self.program("qselect")) else ("qselect",))

    def resources(self, job: Job) -> Iterator[str]:
        """One chunk a node. A site that needs more in it gives its own `-l select={nodes}:…`."""
        said = " ".join(job.options)
        if "select=" not in said:
            parts = [
                f"select={job.nodes}",
                f"ncpus={job.cores}",
                "mpiprocs=1",
            ]  # pbsdsh starts mpiprocs copies
            if job.gpus:
                parts.append(f"ngpus={job.gpus}")
            if job.memory:
                parts.append(f"mem={mebibytes(job.memory)}mb")
            yield ":".join(parts)
        if "place=" not in said:
            yield "place=scatter"

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        """How jobs stand; a job that is not in the answer is gone. Raises SchedulerBusy."""
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        told = {qsub.short(number): status_of(job) for number, job in self._jobs(wanted)}
        return {number: told[qsub.short(number)] for number in wanted if qsub.short(number) in told}

    def cancel(self, ids: Iterable[str]) -> None:
        """Ends jobs; those that have ended already are left alone. Raises SchedulerBusy."""
        wanted = sorted(set(ids))
        if not wanted:
            return
        answer = self.ask("qdel", *wanted)
        if alone := _NO_MOM.findall(answer.err):  # their node is dead: else they would run on in the books
            answer = self.ask("qdel", "-W", "force", *alone)
        if answer.code not in (0, qsub.UNKNOWN, qsub.FINISHED, *_ENDING):
            raise SchedulerBusy(f"qdel: {qsub.told(answer)}")

    def find(self, prefix: str) -> Mapping[str, str]:
        """Ids of this user's jobs that have not ended and whose names begin so, by name.

        Raises SchedulerBusy.
        """
        answer = self.ask("qselect", "-u", qsub.user())
        if answer.code != 0:
            raise SchedulerBusy(f"qselect: {qsub.told(answer)}")
        ids = answer.out.split()
        if not all(word[0].isdigit() for word in ids):
            raise SchedulerBusy(f"qselect answered with what are no ids: {answer.words}")
        ids = [number for number in ids if "[" not in number]  # arrays are never diel's
        return {
            job.get("Job_Name", ""): number
            for number, job in (self._jobs(ids) if ids else ())
            if job.get("Job_Name", "").startswith(prefix) and not status_of(job).state.ended
        }

    def _jobs(self, ids: list[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
        answer = self.ask("qstat", "-x", "-f", "-F", "dsv", *ids)
        if answer.code == NO_HISTORY:
            answer = self.ask("qstat", "-f", "-F", "dsv", *ids)
        return iter(parse_qstat(answer, ids).items())

    # --- this machine -------------------------------------------------------------------------------

    def dialect(self) -> Dialect | None:
        if shutil.which(self.program("qstat")) is None:
            return None
        version = self.ask("qstat", "--version", timeout=QUESTION)
        words = re.search(r"pbs_version\s*=\s*(\S+)", version.out + version.err)
        if version.code != 0 or words is None:
            return None
        server = self.ask("qstat", "-B", timeout=QUESTION)
        if server.code != 0:
            raise SchedulerBusy(f"`{self.program('qstat')} -B` says: {server.words}")
        return Dialect(words[1])

    def nodes(self) -> list[NodeKind]:
        return parse_nodes(self.output("pbsnodes", "-a", "-F", "json"))


def parse_qstat(answer: Answer, ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """The jobs in an answer of `qstat -f -F dsv`, by id: a line a job, `Job Id: 5.pbs0|Job_Name=a|…`.

    Raises SchedulerBusy for what is no such answer, and where it says nothing of some of `ids`: a job
    counts as unknown only where qstat names it.
    """
    if answer.code not in (0, qsub.UNKNOWN, qsub.FINISHED):
        raise SchedulerBusy(f"qstat: {qsub.told(answer)}")
    if answer.out and not answer.out.endswith("\n"):
        raise SchedulerBusy(f"qstat's answer is cut short: {answer.out[-200:]!r}")
    found: dict[str, dict[str, str]] = {}
    for line in answer.out.split("\n"):  # a value may hold what splitlines takes for a line's end
        head, *fields = _DELIMITER.split(line)
        job = {key: value.replace("\\|", "|") for key, _, value in (field.partition("=") for field in fields)}
        if head.startswith(_HEAD) and "job_state" in job:
            found[head.removeprefix(_HEAD).strip()] = job
        elif line.strip():
            raise SchedulerBusy(f"qstat answered with what is no job: {line.strip()[:200]}")
    known = {qsub.short(number) for number in found}
    named = {qsub.short(word) for word in re.findall(r"\d+[\w.\[\]-]*", answer.err)}
    silent = [number for number in ids if qsub.short(number) not in known | named]
    if silent:
        raise SchedulerBusy(f"qstat says nothing of {', '.join(silent)}: {qsub.told(answer)}")
    return found


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
        memory = qsub.bytes_of(str(has.get("mem", "")))
        kinds.append(NodeKind("", 1, cpus, cpus, memory, gpus, physical, shared))
    return gathered(kinds)


def _host(node: Mapping[str, Any]) -> str:
    """The host of a vnode; a name of its own where that is not told."""
    return str(node.get("resources_available", {}).get("host") or node.get("Mom") or id(node))


def status_of(job: Mapping[str, str]) -> JobStatus:
    """How a job stands, from its attributes."""
    letter, comment = job.get("job_state", ""), job.get("comment", "").strip()
    nodes = qsub.hosts(job.get("exec_host", ""))
    state = STATES.get(letter, JobState.RUNNING)
    deleted = _DELETED in comment
    if letter == "R" and deleted:
        state = JobState.ENDING  # it stays R until its processes have ended
    if not state.ended:
        hopeless = state is JobState.PENDING and "can never run" in comment.lower()
        told = comment if state is not JobState.RUNNING or letter not in STATES else ""
        return JobStatus(state, told, nodes=nodes, hopeless=hopeless)
    if letter == "M":
        return JobStatus(state, "moved to another server", nodes=nodes)
    code = job.get("Exit_status", "")
    if not re.fullmatch(r"-?\d+", code):
        return _ended_without_a_code(comment, nodes)
    status = ended(int(code), comment, nodes, ENDS)
    # A script whose child was killed first may end by itself, even with 0.
    return replace(status, state=JobState.CANCELLED, reason=comment) if deleted else status


def _ended_without_a_code(comment: str, nodes: str) -> JobStatus:
    """F without Exit_status: deleted before it ran, or the job that it waited for failed. Never success."""
    if _LOST_NODE.search(comment):
        return JobStatus(JobState.NODE_FAILED, comment, nodes=nodes)
    if nodes:
        return JobStatus(JobState.GONE, comment or "ended, and PBS does not say how", nodes=nodes)
    return JobStatus(JobState.CANCELLED, comment or "deleted before it ran")


def ended(code: int, comment: str, nodes: str, ends: Mapping[int, tuple[JobState, str]]) -> JobStatus:
    """How a job ended, by its exit status and the table of those that have a meaning of their own."""
    if code in ends:
        state, words = ends[code]
    elif code < 0:
        state, words = JobState.NODE_FAILED, f"could not run on its node: Exit_status {code}"
    else:
        state = JobState.FAILED
        words = f"killed by signal {code - 256}" if code > 256 else f"exit code {code}"
    own = code if 0 <= code < 256 else code - 128 if code > 256 else None
    reason = "; ".join(part for part in (words, comment if state is not JobState.COMPLETED else "") if part)
    return JobStatus(state, reason, own, nodes)
