"""PBS Pro and OpenPBS: qsub, qstat, qdel, qselect. Measured with OpenPBS 23.06.

qstat is asked for delimited lines, not for JSON: asked for several jobs in JSON, OpenPBS's main branch
prints the first one alone and exits with 0 (openpbs issue 2672), and an odd byte in a job's variables
can make JSON that no reader takes. A line a job is printed rightly by every version since 18.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from diel.scheduler.job import Job, JobState, JobStatus, SchedulerBusy, mebibytes, states
from diel.scheduler.qsub import SETTLED, Qsub, bytes_of, short, user
from diel.scheduler.scheduler import QUESTION, Answer, Dialect, NodeKind, gathered

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
        """One chunk for each node. A site that needs more in it gives its own `-l select={nodes}:…`."""
        said = " ".join(job.options)
        if "select=" not in said:
            gpus = f":ngpus={job.gpus}" if job.gpus else ""
            memory = f":mem={mebibytes(job.memory)}mb" if job.memory else ""
            # pbsdsh starts mpiprocs copies.
            yield f"select={job.nodes}:ncpus={job.cores}:mpiprocs=1{gpus}{memory}"
        if "place=" not in said:
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
            raise SchedulerBusy(f"qselect: {self.told(answer)}")
        ids = answer.out.split()
        if not all(word[0].isdigit() for word in ids):
            raise SchedulerBusy(f"qselect answered with something else than ids: {answer.words}")
        return [number for number in ids if "[" not in number]  # arrays are never diel's

    def parse_qstat(self, answer: Answer, ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """The jobs in an answer of `qstat -f -F dsv`, by id: a line for each job, `Job Id:
        5.pbs0|Job_Name=a|…`.

        Raises SchedulerBusy for what is no such answer, and if it says nothing of some of `ids`: a job
        counts as unknown only if qstat names it.
        """
        if answer.code not in SETTLED:
            raise SchedulerBusy(f"qstat: {self.told(answer)}")
        if answer.out and not answer.out.endswith("\n"):
            raise SchedulerBusy(f"qstat's answer is cut short: {answer.out[-200:]!r}")
        found: dict[str, dict[str, str]] = {}
        for line in answer.out.split("\n"):  # a value may hold what splitlines takes for a line's end
            head, *fields = _DELIMITER.split(line)
            pairs = (field.partition("=") for field in fields)
            job = {key: value.replace("\\|", "|") for key, _, value in pairs}
            if head.startswith(_HEAD) and "job_state" in job:
                found[head.removeprefix(_HEAD).strip()] = job
            elif line.strip():
                raise SchedulerBusy(f"qstat answered with something else than jobs: {line.strip()[:200]}")
        known = {short(word) for word in (*found, *re.findall(r"\d+[\w.\[\]-]*", answer.err))}
        if silent := [number for number in ids if short(number) not in known]:
            raise SchedulerBusy(f"qstat says nothing about {', '.join(silent)}: {self.told(answer)}")
        return found

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
    """The host of a vnode; a name of its own if PBS does not say."""
    return str(node.get("resources_available", {}).get("host") or node.get("Mom") or id(node))
