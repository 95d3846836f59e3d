"""IBM Spectrum LSF: bsub, bjobs, bkill, as in the manual of LSF 10.1; not yet tried on a real one.

bsub reads a script from its standard input; it is spooled. Job output is the script's own: LSF would append
a report to it. bjobs tells of ended jobs for an hour (CLEAN_PERIOD).
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from diel.base.values import parse_size
from diel.site.scheduler.job import Job, JobState, JobStatus, SchedulerBusy, mebibytes, states
from diel.site.scheduler.scheduler import (
    QUESTION,
    Answer,
    BatchScheduler,
    Dialect,
    NodeKind,
    Offer,
    Queue,
    gathered,
    node_file,
)

STATES = states(
    pending="PEND PROV PSUSP WAIT FWD_PEND",
    running="RUN USUSP SSUSP UNKWN",
    completed="DONE",
    failed="EXIT",
    node_failed="ZOMBI",
)
"""LSF's words for a job's state: bjobs(1), Job status. UNKWN: its node does not answer now."""

ENDS = states(
    timeout="TERM_RUNLIMIT TERM_DEADLINE TERM_CPULIMIT TERM_WINDOW",
    oom="TERM_MEMLIMIT TERM_SWAP",
    preempted="TERM_PREEMPT",
    node_failed="TERM_RMS",
    cancelled="TERM_OWNER TERM_FORCE_OWNER TERM_ADMIN TERM_FORCE_ADMIN TERM_BUCKET_KILL",
)
"""Words in exit_reason that say how a job in EXIT ended: bacct(1), Termination reasons."""

HOPELESS = re.compile(
    r"never (be )?satisfied|exceeds? .*limit of the queue|no (eligible )?hosts?\b.*\bever", re.I
)
"""A pending reason that does not pass by waiting."""
_FIELDS = ("jobid", "stat", "exit_code", "exit_reason", "exec_host", "pend_reason", "job_name")
_NONE = re.compile(r"^No (unfinished |matching )?job(s)? found", re.IGNORECASE | re.MULTILINE)
_NODES = 'sort -u "$LSB_DJOB_HOSTFILE"'


class Lsf(BatchScheduler):
    """LSF's commands."""

    commands = ("bsub", "bjobs", "bkill")
    also = ("bsub", "spectrum_lsf", "spectrum")
    shell = "#!/bin/bash -l"
    sentinel = "#BSUB"
    redirects = True
    private = ("LSB_", "LS_")
    job_variables = ("LSB_JOBID",)
    hosts = _NODES
    spread = ("sh", "-c", f'exec blaunch -z "$({_NODES} | tr "\\n" " ")" "$@"', "spread")
    share = ("sh", "-c", 'exec blaunch -z "$(echo "$DIEL_NODES" | tr "," " ")" "$@"', "spread")
    elsewhere = ("-q",)
    queues_by = ("bsub",)
    held = ("-H",)
    ends_by = ("bkill",)
    accepted = r"^Job <(\d+)> is submitted"
    outputs = r"^exec 2?> (.+)$"
    busy = (
        r"batch daemon not responding|LSF is down|cannot be contacted|still trying|timed out"
        r"|Connection refused|Communication time ?out|Failed in an LSF library call|LIM is down|mbatchd"
        r"|try again|Too many .*connections|Pending job threshold reached"
    )
    settled = "is being (terminated|signaled)|already finished|No matching job|is not found"
    speaker = r"\bb(sub|jobs|kill): "

    def options(self, job: Job) -> Iterable[tuple[str, object]]:
        # Some sites give whole nodes by their number alone.
        own = "-nnodes" not in " ".join(job.options)
        return (
            ("-J {}", job.name),
            ("-o /dev/null", True),  # and so is the report
            ("-e /dev/null", True),
            ("-env none", True),
            ("-q {}", job.queue),
            ("-P {}", job.account),
            ("-n {}", own and job.nodes * job.cores),
            ('-R "span[ptile={}]"', own and job.cores),
            ('-R "rusage[mem={}MB/host]"', own and mebibytes(job.memory)),
            ('-gpu "num={}/host"', own and job.gpus),
            ("-W {}", -(-max(1, int(job.walltime)) // 60)),  # in minutes
            *(("-R \"select[hname!='{}']\"", node) for node in job.exclude),
            ('-w "ended({})"', job.after),
            ("-rn", True),  # one id is one run of the script
        )

    def hand_over(self, script: Path, *words: str) -> Answer:
        return self.ask(*words, folder=script.parent, stdin=script)

    def jobs(self, ids: list[str]) -> list[tuple[str, str, JobStatus]]:
        answer = self.ask("bjobs", "-noheader", "-o", f"{' '.join(_FIELDS)} delimiter='|'", "-a", *ids)
        jobs, text = list(parse_jobs(answer)), answer.err + answer.out
        unknown = re.findall(r"Job <(\d+)> is not found", text)
        if silent := set(ids) - {number for number, _, _ in jobs} - set(unknown):
            raise SchedulerBusy(f"bjobs says nothing about {', '.join(sorted(silent))}: {answer.words}")
        if answer.code != 0 and not ids and not _NONE.search(text):
            raise SchedulerBusy(f"bjobs: {answer.words}")
        return jobs

    def dialect(self) -> Dialect | None:
        if shutil.which("lsid") is None:
            return None
        return Dialect(self.output("lsid").strip().partition("\n")[0].rstrip(", "))

    def offer(self) -> Offer:
        questions = ("bparams",), ("bqueues", "-l"), ("lshosts", "-w")
        parameters, queues, hosts = (self.output(*words, timeout=2 * QUESTION) for words in questions)
        return Offer(parse_queues(queues, parameters), gathered(parse_hosts(hosts)))

    def narrowed(self, nodes: Sequence[str], script: Path) -> Mapping[str, str | None]:
        return {"LSB_DJOB_HOSTFILE": node_file(nodes, script), "LSB_HOSTS": " ".join(nodes)}


def parse_jobs(answer: Answer) -> Iterator[tuple[str, str, JobStatus]]:
    """Id, name and state of each job in an answer of bjobs. Raise SchedulerBusy for any other line."""
    for line in answer.out.splitlines():
        if not line.strip() or re.match(r"Job <\d+> is not found", line) or _NONE.match(line):
            continue
        fields = ["" if field.strip() == "-" else field.strip() for field in line.split("|")]
        if len(fields) < len(_FIELDS) or not fields[0].isdigit():
            raise SchedulerBusy(f"bjobs answered with something else than jobs: {line.strip()[:200]}")
        number, word, code, ended, hosts, *reasons, name = fields
        yield number, name, _status(word, code, ended, hosts, "|".join(reasons))


def _status(word: str, code: str, ended: str, hosts: str, waits: str) -> JobStatus:
    state = STATES.get(word, JobState.RUNNING)
    nodes = ",".join(dict.fromkeys(part.rpartition("*")[2] for part in hosts.split(":") if part))
    if not state.ended:
        reason = waits if state is JobState.PENDING else word if word != "RUN" else ""
        return JobStatus(state, reason, nodes=nodes, hopeless=bool(waits and HOPELESS.search(waits)))
    number = int(code) if code.isdigit() else 0 if state is JobState.COMPLETED else None
    if state is JobState.FAILED:
        state = next((end for key, end in ENDS.items() if re.search(rf"\b{key}\b", ended)), state)
    reason = ended or (f"exit code {number}" if number else "")
    return JobStatus(state, reason if state is not JobState.COMPLETED else "", number, nodes)


def parse_queues(text: str, parameters: str = "") -> list[Queue]:
    """Of `bqueues -l`, and of `bparams`, which names the default ones."""
    defaults = re.search(r"^\s*Default Queues:\s*(.+)$", parameters, re.MULTILINE)
    first = defaults[1].split()[0] if defaults else None
    queues = []
    for block in re.split(r"^(?=QUEUE:)", text, flags=re.MULTILINE):
        name = re.match(r"QUEUE:\s*(\S+)", block)
        if name:
            limits = re.search(r"^MAXIMUM LIMITS:$(.*?)(?=^[A-Z ]+:|\Z)", block, re.MULTILINE | re.DOTALL)
            longest = re.search(r"RUNLIMIT\s*\n\s*([\d.]+) min", limits[1] if limits else block)
            limit = float(longest[1]) * 60 if longest else None
            queues.append(Queue(name[1], limit, default=name[1] == first))
    return queues


def parse_hosts(text: str) -> Iterator[NodeKind]:
    """Of `lshosts -w`: the hosts that run jobs. GPUs are not among its columns."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4].isdigit() and fields[7] in ("Yes", "Dyn"):
            cores = int(fields[4])
            size = re.fullmatch(r"([\d.]+)([KMGT])", fields[5])
            yield NodeKind("", 1, cores, cores, parse_size(f"{size[1]}{size[2]}iB") if size else 0, 0)
