"""Torque, and what speaks like it: Slurm's own qsub, qstat and qdel (package slurm-wlm-torque).

Its qstat knows no JSON and no history of ended jobs but for some minutes. Where an ended job has no
`exit_status`, as with Slurm's commands, nothing says how it ended: it is gone, never a success.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from diel.site.scheduler.job import Job, JobState, SchedulerBusy, check_outputs, mebibytes, states
from diel.site.scheduler.pbs import SETTLED, Qsub, bytes_of, user
from diel.site.scheduler.scheduler import QUESTION, Answer, Dialect, NodeKind, gathered
from diel.site.scheduler.slurm import Slurm

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
    # U: Slurm's qstat does not know how the job ended (out of memory, past a deadline).
    states = states(pending="Q H W T", running="R S", ending="E", gone="C U")
    ends = {  # noqa: RUF012
        **Qsub.ends,
        -10: (JobState.OOM, "killed: too much memory"),
        -11: (JobState.TIMEOUT, "killed: walltime exceeded"),
        -12: (JobState.TIMEOUT, "killed: CPU time exceeded"),
    }  # Torque's documentation, Job exit status
    ending = (168, 170, 202)  # as its versions number them

    def resources(self, job: Job) -> Iterator[str]:
        """Whole nodes with so many cores each; `mem` is of all nodes together."""
        if "nodes=" not in " ".join(job.options):
            yield f"nodes={job.nodes}:ppn={job.cores}" + (f":gpus={job.gpus}" if job.gpus else "")
        if job.memory:
            yield f"mem={mebibytes(job.memory) * job.nodes}mb"

    def submit(self, script: Path) -> str:
        files = check_outputs(script, re.compile(self.outputs, re.MULTILINE))
        # Slurm's qsub overrides the outputs that the script says.
        words = [word for pair in zip(("-o", "-e"), files, strict=False) for word in pair]
        return self.queue(*words, script=script)

    def delete(self, ids: list[str]) -> Answer:
        answer = super().delete(ids)
        # Slurm's qdel exits with the number of jobs that had ended, and says nothing about them.
        silent = answer.code > 0 and not (answer.out + answer.err).strip()
        return answer._replace(code=0) if silent else answer

    def attributes(self, ids: list[str]) -> list[tuple[str, dict[str, str]]]:
        answer = self.ask("qstat", "-f", *ids)
        jobs = self.parse_qstat(answer)
        if ids and not jobs and answer.code == 0:
            raise SchedulerBusy("qstat printed nothing, though it was asked for jobs")
        own = user()
        return [entry for entry in jobs if ids or entry[1].get("Job_Owner", "").split("@")[0] == own]

    def parse_qstat(self, answer: Answer) -> list[tuple[str, dict[str, str]]]:
        """Id and attributes of each job in an answer of `qstat -f`. Raise SchedulerBusy for all else."""
        if answer.code not in SETTLED:
            raise SchedulerBusy(f"qstat: {self.words(answer)}")
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
                raise SchedulerBusy(f"qstat answered with something else than jobs: {line.strip()[:200]}")
        if any("job_state" not in job for _, job in jobs):
            raise SchedulerBusy(f"qstat's answer is cut short: {answer.out[-200:]!r}")
        return jobs

    def dialect(self) -> Dialect | None:
        """Of the first qstat on PATH, where it is not PBS's; Slurm's does not know `--version`."""
        if shutil.which("qstat") is None:
            return None
        version = self.ask("qstat", "--version", timeout=QUESTION)
        if "pbs_version" in version.out + version.err:
            return None
        self.output("qstat", "-Q")
        words = re.search(r"(?im)^\s*version:\s*(.+)$", f"{version.out}\n{version.err}")
        return Dialect(words[1].strip()) if words else Dialect("(commands in its style)", wrapper=True)

    def nodes(self) -> list[NodeKind]:
        return parse_nodes(self.output("pbsnodes", "-a", timeout=2 * QUESTION))

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


def parse_nodes(text: str) -> list[NodeKind]:
    """Of `pbsnodes -a`."""
    kinds = []
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        alone = re.search(r"^\s+(?:np|pcpus|ncpus)\s*=\s*(\d+)", block, re.MULTILINE)
        cores = alone or re.search(r"\bncpus=(\d+)", block)
        if cores is None:
            continue
        memory = re.search(r"\bphysmem=(\w+)", block)
        gpus = re.search(r"^\s+gpus\s*=\s*(\d+)", block, re.MULTILINE)
        count = int(cores[1])
        size = bytes_of(memory[1]) if memory else 0
        kinds.append(NodeKind("", 1, count, count, size, int(gpus[1]) if gpus else 0))
    return gathered(kinds)
