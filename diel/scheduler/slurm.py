"""Slurm: sbatch, squeue, scancel; sacct for jobs that squeue has forgotten, where a site has it.

Measured with Slurm 22.05. One squeue for all jobs of this user is cheaper for slurmctld than one for a
list of ids (it filters by user, but sends all jobs for a list), and it does not fail for an unknown id.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from diel.scheduler.command import QUESTION, Answer
from diel.scheduler.directives import check_outputs, clock, mebibytes, options, quoted, seconds
from diel.scheduler.job import Job, JobState, JobStatus, SchedulerBusy, SchedulerRefused
from diel.scheduler.nodes import Dialect, NodeKind, Offer, Queue
from diel.scheduler.scheduler import Scheduler

STATES: Mapping[str, JobState] = {
    "PENDING": JobState.PENDING,
    "CONFIGURING": JobState.PENDING,
    "POWER_UP_NODE": JobState.PENDING,
    "REQUEUED": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "COMPLETING": JobState.ENDING,
    "STAGE_OUT": JobState.ENDING,
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "REVOKED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
    "DEADLINE": JobState.TIMEOUT,
    "OUT_OF_MEMORY": JobState.OOM,
    "BOOT_FAIL": JobState.NODE_FAILED,
    "LAUNCH_FAILED": JobState.NODE_FAILED,
    "NODE_FAIL": JobState.NODE_FAILED,
    "RECONFIG_FAIL": JobState.NODE_FAILED,
    "PREEMPTED": JobState.PREEMPTED,
}
"""Slurm's words for a job's state: squeue(1), JOB STATE CODES."""

HOPELESS = frozenset(
    {
        "AccountNotAllowed",
        "AssocMaxCpuPerJobLimit",
        "AssocMaxGRESPerJob",
        "AssocMaxMemPerJob",
        "AssocMaxNodePerJobLimit",
        "AssocMaxWallDurationPerJobLimit",
        "BadConstraints",
        "DependencyNeverSatisfied",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSMaxCpuPerJobLimit",
        "QOSMaxGRESPerJob",
        "QOSMaxMemoryPerJob",
        "QOSMaxNodePerJobLimit",
        "QOSMaxWallDurationPerJobLimit",
        "QOSNotAllowed",
    }
)
"""Reasons that do not pass by waiting: the request itself is beyond a limit. A node that is down, drained or
reserved has other words, and limits on all jobs of a user together are not here: those pass."""

_BUSY = re.compile(
    r"Unable to contact slurm controller|timed out|Connection (refused|reset)"
    r"|Communication connection failure|Zero Bytes were transmitted|temporarily (unable|unavailable)"
    r"|standby mode|rate limit"
    r"|Unable to establish (configuration source|controller)|No route to host|Munge|authentication error"
    r"|Transport endpoint is not connected",
    re.IGNORECASE,
)
_NOWHERE = "Requested node configuration is not available"
_IN_SERVICE = ("idle", "mix", "alloc", "comp")
"""How sinfo's words begin for nodes that take jobs, or will when those that they have are over."""
_FIELDS = ("JobID:32|", "State:32|", "exit_code:16|", "Reason:400|", "NodeList:2000|", "Name:200|")
_OUTPUT = re.compile(r"^#SBATCH --(?:output|error)=(.+)$", re.MULTILINE)
_SACCT_TIMEOUT = 10.0


_GPUS = re.compile(r"\bgpu(?::[^:,(]+)?:(\d+)")


class Slurm(Scheduler):
    """Slurm's commands."""

    commands = ("sbatch", "squeue", "scancel")
    also = ("sbatch",)
    shell = "#!/bin/bash -l"
    sentinel = "#SBATCH"
    prologue = (
        "# The job got no variables from the shell that submitted it; its own steps get those set below.",
        "export SLURM_EXPORT_ENV=ALL",
        "# diel's workers are a step that holds all cores: MPI tasks are further steps beside it.",
        "export SLURM_OVERLAP=1",
    )
    private = ("SLURM_", "SQUEUE_", "SACCT_", "SINFO_")
    public = ("SLURM_CONF", "SLURM_CLUSTERS")
    job_variables = ("SLURM_JOB_ID",)
    node = 'echo "$SLURMD_NODENAME"'
    # A step with all that each node has. The end of one node's program, or of one node, is not the others'.
    # Without PMI's variables, which an MPI program started by a worker would take for its own.
    spread = (
        "srun",
        "--nodes={nodes}",
        "--ntasks={nodes}",
        "--ntasks-per-node=1",
        "--overlap",
        "--mem=0",
        "--cpu-bind=none",
        "--mpi=none",
        "--no-kill",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--export=ALL",
    )
    hosts = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    share = ("sh", "-c", f'exec {shlex.join(spread)} --nodelist="$DIEL_NODES" "$@"', "spread")
    oom = r"(?:slurmstepd|srun): .*(?:oom[-_ ]kill|out of memory)"
    elsewhere = ("--partition", "-p", "--qos", "-q")

    def directives(self, job: Job) -> Iterator[str]:
        yield f"--job-name={job.name}"
        yield f"--chdir={quoted(job.folder)}"
        yield f"--output={_pattern(job.stdout)}"
        yield f"--error={_pattern(job.stderr)}"
        if job.queue:
            yield f"--partition={job.queue}"
        if job.account:
            yield f"--account={job.account}"
        yield f"--nodes={job.nodes}"
        yield f"--ntasks-per-node={job.cores}"
        if job.gpus:
            yield f"--gres=gpu:{job.gpus}"
        if job.memory:
            yield f"--mem={mebibytes(job.memory)}M"
        yield f"--time={clock(job.walltime)}"
        if job.exclude:
            yield f"--exclude={','.join(job.exclude)}"
        if job.after:
            yield f"--dependency=afterany:{job.after}"
        # One id is one run of the script; a lost node takes no other with it; no variables are needed.
        yield from ("--no-requeue", "--no-kill", "--export=NONE")
        yield from options(job.options, job.nodes)

    def try_out(self, script: Path) -> None:
        """Raises SchedulerRefused where sbatch would not take a script, and SchedulerBusy. Nothing is queued.

        It says nothing of a time beyond the partition's limit: such a job is queued, and waits for ever.
        """
        answer = self.ask("sbatch", "--test-only", script.name, folder=script.parent)
        if answer.code != 0 and not (_NOWHERE in answer.err and self._lacks_nodes()):
            raise _refusal(answer)

    def _lacks_nodes(self) -> bool:
        """Whether some nodes are out of service: then a job may find a place later that has none now."""
        answer = self.ask("sinfo", "--noheader", "--format=%T")
        return answer.code != 0 or any(not word.startswith(_IN_SERVICE) for word in answer.out.split())

    def submit(self, script: Path) -> str:
        """Queues a script; returns the job's id. Raises SchedulerBusy and SchedulerRefused.

        A job that sbatch timed out on may be queued all the same: `find` tells.
        """
        check_outputs(script, _OUTPUT)
        answer = self.ask("sbatch", "--parsable", script.name, folder=script.parent)
        if answer.code != 0:
            raise _refusal(answer)
        ids = re.findall(r"^(\d+)(?:;\S+)?\s*$", answer.out, re.MULTILINE)  # sites print banners before it
        if not ids:
            raise SchedulerBusy(f"sbatch printed no id of a job: {answer.words}")
        return str(ids[-1])

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        """How jobs stand; a job that is not in the answer is gone. Raises SchedulerBusy."""
        wanted = set(ids)
        if not wanted:
            return {}
        found = {number: status for number, _, status in self._jobs() if number in wanted}
        if forgotten := wanted - set(found):
            found.update(self._remembered(forgotten))
        return found

    def cancel(self, ids: Iterable[str]) -> None:
        """Ends jobs; those that have ended already are left alone. Raises SchedulerBusy."""
        wanted = sorted(set(ids))
        if not wanted:
            return
        answer = self.ask("scancel", *wanted)
        known = ("Invalid job id", "already complet")
        lines = [line for line in answer.err.splitlines() if line.strip()]
        if answer.code != 0 and not (lines and all(any(word in line for word in known) for line in lines)):
            raise SchedulerBusy(f"scancel: {_told(answer)}")

    def find(self, prefix: str) -> Mapping[str, str]:
        """Ids of this user's jobs that have not ended and whose names begin so, by name.

        Raises SchedulerBusy.
        """
        jobs = self._jobs()
        return {
            name: number
            for number, name, status in jobs
            if name.startswith(prefix) and not status.state.ended
        }

    def _jobs(self) -> list[tuple[str, str, JobStatus]]:
        """Id, name and state of all jobs of this user that slurmctld still knows."""
        format_ = f"--Format={','.join(_FIELDS)}"
        answer = self.ask("squeue", f"--user={os.getuid()}", "--states=all", "--noheader", format_)
        if answer.code != 0:
            raise SchedulerBusy(f"squeue: {_told(answer)}")
        return list(parse_squeue(answer.out))

    def _remembered(self, ids: Iterable[str]) -> Iterator[tuple[str, JobStatus]]:
        """What the accounting knows of forgotten jobs. Many sites have none, or a slow one."""
        words = [f"--jobs={','.join(sorted(ids))}", "--allocations", "--noheader", "--parsable2"]
        try:
            answer = self.ask(
                "sacct",
                *words,
                "--format=JobIDRaw,State,ExitCode,NodeList",
                timeout=min(self.timeout, _SACCT_TIMEOUT),
            )
            yield from parse_sacct(answer.out if answer.code == 0 else "")
        except (SchedulerBusy, ValueError):
            return

    # --- this machine -------------------------------------------------------------------------------

    def dialect(self) -> Dialect | None:
        if shutil.which("sinfo") is None:
            return None
        version = self.ask("sinfo", "--version", timeout=QUESTION)
        state = self.ask("scontrol", "ping", timeout=QUESTION)
        if state.code != 0 or not re.search(r"\bis UP|are (UP|\w+/UP)", state.out):
            raise SchedulerBusy(f"`scontrol ping` says: {state.words}")
        return Dialect(version.out.strip()) if version.code == 0 else None

    def offer(self) -> Offer:
        answer = self.ask("sinfo", "--noheader", "--format=%P|%D|%z|%m|%G|%l", timeout=2 * QUESTION)
        if answer.code != 0:
            raise SchedulerBusy(f"sinfo: {_told(answer)}")
        return parse_sinfo(answer.out)

    # --- within a job of it -------------------------------------------------------------------------

    def narrowed(self, nodes: Sequence[str], script: Path) -> Mapping[str, str | None]:
        names, count = ",".join(nodes), str(len(nodes))
        # What the outer script was started with would tie each step to the outer job's shape.
        tied = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
        return {
            **dict.fromkeys(tied),
            **dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST"), names),
            **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), count),
        }


def _pattern(path: Path) -> str:
    """A file's whole path: Slurm would read `%j` in it as the job's id."""
    return quoted(path).replace("%", "%%")


def parse_squeue(text: str) -> Iterator[tuple[str, str, JobStatus]]:
    """Id, name and state of each job in squeue's answer. Raises SchedulerBusy for a line that is none."""
    for line in text.splitlines():
        if not line.strip():
            continue
        fields = [field.strip() for field in line.rstrip().removesuffix("|").split("|", len(_FIELDS) - 1)]
        if len(fields) != len(_FIELDS) or not fields[0].isdigit():
            raise SchedulerBusy(f"squeue answered with what is no job: {line.strip()[:200]}")
        number, word, code, reason, nodes, name = fields
        yield number, name, _status(word, _exit_code(code), "" if reason == "None" else reason, nodes)


def parse_sinfo(text: str) -> Offer:
    """Of `sinfo -h -o %P|%D|%z|%m|%G|%l`: partitions, and their nodes. Memory there is in MiB."""
    queues: dict[str, Queue] = {}
    kinds = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 6:
            continue
        name, nodes, shape, memory, gres, limit = fields
        default, name = name.endswith("*"), name.rstrip("*")
        queues[name] = Queue(name, seconds(limit), default)
        sockets, cores, threads = ([int(part) for part in re.findall(r"\d+", shape)] + [1, 1, 1])[:3]
        gpus = sum(int(number) for number in _GPUS.findall(gres))
        bytes_ = int(re.sub(r"\D", "", memory) or 0) * 2**20
        count = int(re.sub(r"\D", "", nodes) or 0)
        kinds.append(NodeKind(name, count, sockets * cores, sockets * cores * threads, bytes_, gpus))
    return Offer(list(queues.values()), kinds)


def parse_sacct(text: str) -> Iterator[tuple[str, JobStatus]]:
    """Id and state of each job in sacct's answer that has ended; other lines say nothing."""
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 4 or not fields[0].isdigit():
            continue
        number, word, code, nodes = fields
        left, _, killed = code.partition(":")
        status = _status(word, int(left) or (128 + int(killed) if int(killed or 0) else 0), "", nodes)
        if status.state.ended:
            yield number, status


def _status(word: str, code: int, reason: str, nodes: str) -> JobStatus:
    state = STATES.get(word.split()[0] if word else "", JobState.RUNNING)  # sacct: CANCELLED by 1000
    plain = word in ("PENDING", "RUNNING", "COMPLETED")
    told = reason if plain else f"{word}: {reason}" if reason else word
    hopeless = state is JobState.PENDING and reason.split(",")[0] in HOPELESS
    return JobStatus(state, told, code if state.ended else None, nodes, hopeless)


def _exit_code(text: str) -> int:
    """The exit code in a status of wait(2), as squeue prints it; 128 + N for signal N, as shells say."""
    status = int(text) if text.isdigit() else 0
    return 128 + (status & 127) if status & 127 else status >> 8


def _refusal(answer: Answer) -> SchedulerBusy | SchedulerRefused:
    """Why sbatch failed: whether it is of use to ask again."""
    busy = answer.code < 0 or _BUSY.search(answer.err)
    return (SchedulerBusy if busy else SchedulerRefused)(f"sbatch: {_told(answer)}")


def _told(answer: Answer) -> str:
    """Slurm's own words, without the name of the program that begins each line."""
    return re.sub(r"\b(sbatch|squeue|scancel): (error: )?", "", answer.words)
