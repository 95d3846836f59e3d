"""Slurm: sbatch, squeue, scancel; sacct for jobs that squeue has forgotten, if a site has it.

Measured with Slurm 22.05. One squeue for all jobs of this user is cheaper for slurmctld than one for a
list of ids (it filters by user, but sends all jobs for a list), and it does not fail for an unknown id.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from diel.site.scheduler.job import Job, JobState, JobStatus, SchedulerBusy, clock, mebibytes, quoted, states
from diel.site.scheduler.scheduler import QUESTION, BatchScheduler, Dialect, NodeKind, Offer, Queue

STATES = states(
    pending="PENDING CONFIGURING POWER_UP_NODE REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT",
    running="RUNNING RESIZING SIGNALING STOPPED SUSPENDED",
    ending="COMPLETING STAGE_OUT",
    completed="COMPLETED",
    failed="FAILED",
    cancelled="CANCELLED REVOKED",
    timeout="TIMEOUT DEADLINE",
    oom="OUT_OF_MEMORY",
    node_failed="BOOT_FAIL LAUNCH_FAILED NODE_FAIL RECONFIG_FAIL",
    preempted="PREEMPTED",
)
"""Slurm's words for a job's state: squeue(1), JOB STATE CODES."""

HOPELESS = re.compile(
    r"AccountNotAllowed|InvalidAccount|InvalidQOS|QOSNotAllowed|BadConstraints|DependencyNeverSatisfied"
    r"|Partition(Config|NodeLimit|TimeLimit)|AssocMaxMemPerJob|QOSMaxMemoryPerJob"
    r"|(Assoc|QOS)Max(CpuPerJobLimit|GRESPerJob|NodePerJobLimit|WallDurationPerJobLimit)"
)
"""Reasons that do not pass by waiting: the request itself is beyond a limit. A node that is down, drained or
reserved has other words, and limits on all jobs of a user together are not here: those pass."""

_NOWHERE = "Requested node configuration is not available"
_WORKING = ("idle", "mix", "alloc", "comp")
"""How sinfo's words begin for nodes that take jobs, or will when those that they have are over."""
_FIELDS = ("JobID:32|", "State:32|", "exit_code:16|", "Reason:400|", "NodeList:2000|", "Name:200|")
_SACCT_TIMEOUT = 10.0
_GPUS = re.compile(r"\bgpu(?::[^:,(]+)?:(\d+)")
_STEP = (
    "srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --overlap --mem=0 --cpu-bind=none --mpi=none"
    " --no-kill --kill-on-bad-exit=0 --wait=0 --export=ALL"
)
"""A step with all that each node has. The end of one node's program, or of one node, does not end the others;
PMI's variables are left out, which an MPI program started by a worker would take for its own."""


class Slurm(BatchScheduler):
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
    spread = tuple(shlex.split(_STEP))
    hosts = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    share = ("sh", "-c", f'exec {_STEP} --nodelist="$DIEL_NODES" "$@"', "spread")
    oom = r"(?:slurmstepd|srun): .*(?:oom[-_ ]kill|out of memory)"
    elsewhere = ("--partition", "-p", "--qos", "-q")
    queues_by = ("sbatch", "--parsable")
    ends_by = ("scancel",)
    accepted = r"^(\d+)(?:;\S+)?\s*$"
    outputs = r"^#SBATCH --(?:output|error)=(.+)$"
    busy = (
        r"Unable to contact slurm controller|timed out|Connection (refused|reset)"
        r"|Communication connection failure|Zero Bytes were transmitted|temporarily (unable|unavailable)"
        r"|standby mode|rate limit"
        r"|Unable to establish (configuration source|controller)|No route to host|Munge|authentication error"
        r"|Transport endpoint is not connected"
    )
    settled = "Invalid job id|already complet"
    speaker = r"\b(sbatch|squeue|scancel): (error: )?"

    def options(self, job: Job) -> Iterable[tuple[str, object]]:
        return (
            ("--job-name={}", job.name),
            ("--chdir={}", quoted(job.folder)),
            # Slurm would read a `%j` in them as the job's id.
            ("--output={}", quoted(job.stdout).replace("%", "%%")),
            ("--error={}", quoted(job.stderr).replace("%", "%%")),
            ("--partition={}", job.queue),
            ("--account={}", job.account),
            ("--nodes={}", job.nodes),
            ("--ntasks-per-node={}", job.cores),
            ("--gres=gpu:{}", job.gpus),
            ("--mem={}M", mebibytes(job.memory)),
            ("--time={}", clock(job.walltime)),
            ("--exclude={}", ",".join(job.exclude)),
            ("--dependency=afterany:{}", job.after),
            ("--no-requeue", True),  # one id is one run of the script
            ("--no-kill", True),  # a lost node takes no other with it
            ("--export=NONE", True),
        )

    def try_out(self, script: Path) -> None:
        """Nothing is queued. Of a time beyond the partition's limit sbatch says nothing: such a job waits."""
        answer = self.hand_over(script, "sbatch", "--test-only")
        if answer.code == 0:
            return
        if _NOWHERE in answer.err:  # where some nodes are down, it may find a place later that has none now
            nodes = self.ask("sinfo", "--noheader", "--format=%T")
            if nodes.code != 0 or any(not word.startswith(_WORKING) for word in nodes.out.split()):
                return
        raise self.refusal(answer)

    def jobs(self, ids: list[str]) -> Iterator[tuple[str, str, JobStatus]]:
        format_ = f"--Format={','.join(_FIELDS)}"
        answer = self.ask("squeue", f"--user={os.getuid()}", "--states=all", "--noheader", format_)
        if answer.code != 0:
            raise SchedulerBusy(f"squeue: {self.words(answer)}")
        listed = list(parse_squeue(answer.out))
        yield from listed
        if forgotten := set(ids) - {number for number, _, _ in listed}:
            yield from self._remembered(forgotten)

    def _remembered(self, ids: Iterable[str]) -> Iterator[tuple[str, str, JobStatus]]:
        """Yield what the accounting knows of forgotten jobs. Many sites have none, or a slow one."""
        words = [f"--jobs={','.join(sorted(ids))}", "--allocations", "--noheader", "--parsable2"]
        fields = "--format=JobIDRaw,State,ExitCode,NodeList"
        try:
            answer = self.ask("sacct", *words, fields, timeout=min(self.timeout, _SACCT_TIMEOUT))
            for number, status in parse_sacct(answer.out if answer.code == 0 else ""):
                yield number, "", status
        except (SchedulerBusy, ValueError):
            return

    def dialect(self) -> Dialect | None:
        if shutil.which("sinfo") is None:
            return None
        version = self.ask("sinfo", "--version", timeout=QUESTION)
        state = self.ask("scontrol", "ping", timeout=QUESTION)
        if state.code != 0 or not re.search(r"\bis UP|are (UP|\w+/UP)", state.out):
            raise SchedulerBusy(f"`scontrol ping` says: {state.words}")
        return Dialect(version.out.strip()) if version.code == 0 else None

    def offer(self) -> Offer:
        fields = "--format=%P|%D|%z|%m|%G|%l"
        return parse_sinfo(self.output("sinfo", "--noheader", fields, timeout=2 * QUESTION))

    def narrowed(self, nodes: Sequence[str], script: Path) -> Mapping[str, str | None]:
        names, count = ",".join(nodes), str(len(nodes))
        # What the outer script was started with would tie each step to the outer job's shape.
        tied = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
        return {
            **dict.fromkeys(tied),
            **dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST"), names),
            **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), count),
        }


def parse_squeue(text: str) -> Iterator[tuple[str, str, JobStatus]]:
    """Id, name and state of each job in squeue's answer. Raise SchedulerBusy for any other line."""
    for line in text.splitlines():
        if not line.strip():
            continue
        fields = [field.strip() for field in line.rstrip().removesuffix("|").split("|", len(_FIELDS) - 1)]
        if len(fields) != len(_FIELDS) or not fields[0].isdigit():
            raise SchedulerBusy(f"squeue answered with something else than jobs: {line.strip()[:200]}")
        number, word, code, reason, nodes, name = fields
        wait = int(code) if code.isdigit() else 0  # as wait(2) has it; 128 + N for signal N, as shells say
        own = 128 + (wait & 127) if wait & 127 else wait >> 8
        yield number, name, _status(word, own, "" if reason == "None" else reason, nodes)


def seconds(text: str) -> float | None:
    """Return seconds of `1-12:00:00`, `30:00`, `30` (minutes); None of `infinite` and what is no time."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts) or not (days.isdigit() or not days):
        return None
    total = 0.0
    for part in parts if len(parts) > 1 else [*parts, "0"]:
        total = 60 * total + int(part)
    return total + 86400 * int(days or 0)


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
        exit_code, _, killed = code.partition(":")
        status = _status(word, int(exit_code) or (128 + int(killed) if int(killed or 0) else 0), "", nodes)
        if status.state.ended:
            yield number, status


def _status(word: str, code: int, reason: str, nodes: str) -> JobStatus:
    state = STATES.get(word.split()[0] if word else "", JobState.RUNNING)  # sacct: CANCELLED by 1000
    plain = word in ("PENDING", "RUNNING", "COMPLETED")
    detail = reason if plain else f"{word}: {reason}" if reason else word
    hopeless = state is JobState.PENDING and HOPELESS.fullmatch(reason.split(",")[0]) is not None
    return JobStatus(state, detail, code if state.ended else None, nodes, hopeless)
