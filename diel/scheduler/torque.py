"""Torque, and what speaks like it: Slurm's own qsub, qstat and qdel (package slurm-wlm-torque).

Its qstat knows no JSON and no history of ended jobs but for some minutes. Where an ended job has no
`exit_status`, as with Slurm's commands, nothing says how it ended: it is gone, never a success.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from diel.scheduler import qsub
from diel.scheduler.command import QUESTION, Answer
from diel.scheduler.directives import check_outputs, mebibytes
from diel.scheduler.job import Job, JobState, JobStatus, SchedulerBusy
from diel.scheduler.nodes import Dialect, NodeKind, gathered
from diel.scheduler.pbs import ended
from diel.scheduler.qsub import Qsub
from diel.scheduler.slurm import Slurm

STATES: Mapping[str, JobState] = {
    "Q": JobState.PENDING,
    "H": JobState.PENDING,
    "W": JobState.PENDING,
    "T": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.RUNNING,
    "E": JobState.ENDING,
    "C": JobState.GONE,
    "U": JobState.GONE,
}
"""Torque's letters for a job's state. How a job in C ended is in its exit_status; U is what Slurm's qstat
says of jobs that ended in a way that it does not know (out of memory, past a deadline)."""

ENDS: Mapping[int, tuple[JobState, str]] = {
    0: (JobState.COMPLETED, ""),
    265: (JobState.CANCELLED, "killed by signal 9"),
    271: (JobState.CANCELLED, "killed by signal 15, as qdel does"),
    -10: (JobState.OOM, "killed: too much memory"),
    -11: (JobState.TIMEOUT, "killed: walltime exceeded"),
    -12: (JobState.TIMEOUT, "killed: CPU time exceeded"),
}
"""Values of exit_status that are not the script's own: Torque's documentation, Job exit status."""

_ENDING = (168, 170, 202)
"""qdel's exit codes for a job that is ending, as its versions number them."""
_HEAD = re.compile(r"^Job Id:\s*(\S+)\s*$")
_ATTRIBUTE = re.compile(r"^\s+([\w.]+) = (.*)$")


class Torque(Qsub):
    """Torque's commands."""

    commands = ("qsub", "qstat", "qdel")
    also = ("moab", "maui")
    private = (*Qsub.private, *Slurm.private)  # Slurm's qsub is sbatch
    public = (*Qsub.public, *Slurm.public)
    job_variables = (*Slurm.job_variables, *Qsub.job_variables)
    node = Slurm.node
    spread = ("pbsdsh", "-u", "--")
    oom = Slurm.oom

    def resources(self, job: Job) -> Iterator[str]:
        """Whole nodes with so many cores each; `mem` is of all nodes together."""
        if "nodes=" not in " ".join(job.options):
            yield f"nodes={job.nodes}:ppn={job.cores}" + (f":gpus={job.gpus}" if job.gpus else "")
        if job.memory:
            yield f"mem={mebibytes(job.memory) * job.nodes}mb"

    def submit(self, script: Path) -> str:
        files = check_outputs(script, qsub.OUTPUT)
        # Slurm's qsub overrides the outputs that the script says.
        words = [word for pair in zip(("-o", "-e"), files, strict=False) for word in pair]
        return self.queue(*words, script=script)

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        """How jobs stand; a job that is not in the answer is gone. Raises SchedulerBusy."""
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        answer = self.ask("qstat", "-f", *wanted)
        told = {qsub.short(number): status_of(job) for number, job in parse_qstat(answer)}
        if not told and answer.code == 0:
            raise SchedulerBusy("qstat answered without a word, though it was asked for jobs")
        return {number: told[qsub.short(number)] for number in wanted if qsub.short(number) in told}

    def cancel(self, ids: Iterable[str]) -> None:
        """Ends jobs; those that have ended already are left alone. Raises SchedulerBusy."""
        wanted = sorted(set(ids))
        if not wanted:
            return
        answer = self.ask("qdel", *wanted)
        # Slurm's qdel exits with the number of jobs that had ended, and says nothing of them.
        silent = answer.code > 0 and not (answer.out + answer.err).strip()
        if not silent and answer.code not in (0, qsub.UNKNOWN, qsub.FINISHED, *_ENDING):
            raise SchedulerBusy(f"qdel: {qsub.told(answer)}")

    def find(self, prefix: str) -> Mapping[str, str]:
        """Ids of this user's jobs that have not ended and whose names begin so, by name.

        Raises SchedulerBusy.
        """
        answer = self.ask("qstat", "-f")
        return {
            job.get("Job_Name", ""): number
            for number, job in parse_qstat(answer)
            if job.get("Job_Name", "").startswith(prefix)
            and job.get("Job_Owner", "").split("@")[0] == qsub.user()
            and not status_of(job).state.ended
        }

    # --- this machine -------------------------------------------------------------------------------

    def dialect(self) -> Dialect | None:
        """Of the first qstat on PATH, where it is not PBS's; Slurm's does not know `--version`."""
        if shutil.which("qstat") is None:
            return None
        version = self.ask("qstat", "--version", timeout=QUESTION)
        if "pbs_version" in version.out + version.err:
            return None
        server = self.ask("qstat", "-Q", timeout=QUESTION)
        if server.code != 0:
            raise SchedulerBusy(f"`qstat -Q` says: {server.words}")
        words = re.search(
            r"^\s*version:\s*(.+)$", f"{version.out}\n{version.err}", re.IGNORECASE | re.MULTILINE
        )
        return Dialect(words[1].strip()) if words else Dialect("(commands in its style)", wrapper=True)

    def nodes(self) -> list[NodeKind]:
        return parse_nodes(self.output("pbsnodes", "-a"))

    # --- within a job of it: Slurm's, where its commands are Slurm's own wrappers ---------------------

    @property
    def share(self) -> Sequence[str]:  # type: ignore[override]
        return Slurm.share if _is_in_slurm() else Qsub.share

    @property
    def hosts(self) -> str:  # type: ignore[override]
        return Slurm.hosts if _is_in_slurm() else Qsub.hosts

    def narrowed(self, nodes: Sequence[str], script: Path) -> Mapping[str, str | None]:
        return (Slurm().narrowed if _is_in_slurm() else super().narrowed)(nodes, script)


def _is_in_slurm() -> bool:
    return not os.environ.get("PBS_NODEFILE") and bool(os.environ.get("SLURM_JOB_NODELIST"))


def parse_qstat(answer: Answer) -> list[tuple[str, dict[str, str]]]:
    """Id and attributes of each job in an answer of `qstat -f`. Raises SchedulerBusy for what is none."""
    if answer.code not in (0, qsub.UNKNOWN, qsub.FINISHED):
        raise SchedulerBusy(f"qstat: {qsub.told(answer)}")
    jobs: list[tuple[str, dict[str, str]]] = []
    last = ""
    for line in answer.out.splitlines():
        if head := _HEAD.match(line):
            jobs.append((head[1], {}))
            last = ""
        elif jobs and (attribute := _ATTRIBUTE.match(line)):
            last = attribute[1]
            jobs[-1][1].setdefault(last, attribute[2].strip())
        elif jobs and last and line.startswith("\t"):  # a long value goes on
            jobs[-1][1][last] += line.strip()
        elif line.strip():
            raise SchedulerBusy(f"qstat answered with what is no job: {line.strip()[:200]}")
    if any("job_state" not in job for _, job in jobs):
        raise SchedulerBusy(f"qstat's answer is cut short: {answer.out[-200:]!r}")
    return jobs


def parse_nodes(text: str) -> list[NodeKind]:
    """Of `pbsnodes -a`."""
    kinds = []
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        cores = re.search(r"^\s+(?:np|pcpus|ncpus)\s*=\s*(\d+)", block, re.MULTILINE) or re.search(
            r"\bncpus=(\d+)", block
        )
        if cores is None:
            continue
        memory = re.search(r"\bphysmem=(\w+)", block)
        gpus = re.search(r"^\s+gpus\s*=\s*(\d+)", block, re.MULTILINE)
        count = int(cores[1])
        size = qsub.bytes_of(memory[1]) if memory else 0
        kinds.append(NodeKind("", 1, count, count, size, int(gpus[1]) if gpus else 0))
    return gathered(kinds)


def status_of(job: Mapping[str, str]) -> JobStatus:
    """How a job stands, from its attributes."""
    letter, comment = job.get("job_state", ""), job.get("comment", "")
    nodes = qsub.hosts(job.get("exec_host", ""))
    state = STATES.get(letter, JobState.RUNNING)
    if not state.ended:
        told = comment if state is JobState.PENDING or letter not in STATES else ""
        hopeless = state is JobState.PENDING and "can never run" in comment.lower()
        return JobStatus(state, told, nodes=nodes, hopeless=hopeless)
    code = job.get("exit_status", "")
    if not re.fullmatch(r"-?\d+", code):
        return JobStatus(JobState.GONE, comment or "ended, and qstat does not say how", nodes=nodes)
    return ended(int(code), comment, nodes, ENDS)
