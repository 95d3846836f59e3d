"""Flux: flux batch, flux jobs, flux cancel. Measured with flux-core 0.88.0, and by its manual pages.

A job of `flux batch` is a Flux instance of its own: its script runs once, on its first node, and `flux run`
there starts tasks on the job's resources alone. Memory is no resource of Flux's: `memory` is passed over.
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping

from diel.site.scheduler.job import Job, JobState, JobStatus, SchedulerBusy, quoted, states
from diel.site.scheduler.scheduler import (
    QUESTION,
    Answer,
    BatchScheduler,
    Dialect,
    NodeKind,
    Offer,
    Queue,
    gathered,
)

STATES = states(
    pending="NEW DEPEND PRIORITY SCHED",
    running="RUN",
    ending="CLEANUP",
    completed="COMPLETED",
    failed="FAILED",
    cancelled="CANCELED",
    timeout="TIMEOUT",
)
"""Flux's words for a job's state, and for the result of one that is inactive: flux-jobs(1), JOB STATUS."""

_OUTSIDE = "DIEL_FLUX_URI"
"""In a job: the instance that gave it, which a controller there asks for more jobs."""
_NODES = "flux resource list --states=all --no-header --format={nodelist}"
_PATH = "DIEL_FLUX_PATH"
_FORMAT = (
    "{id.f58plain}|{name}|{state}|{result}|{returncode}|{exception.type}|{nodelist}|{contextual_info}"
    "|{exception.note}"
)


class Flux(BatchScheduler):
    """Flux's commands."""

    commands = ("flux",)
    also = ("flux-core", "fluxion", "flux-sched")
    shell = "#!/bin/bash -l"
    sentinel = "#flux:"
    prologue = (
        f'export PATH="$PATH:${_PATH}"  # a login shell may have dropped where flux is',
        "# Flux's commands speak to the job's own instance from here on; a controller asks the one outside.",
        f'export {_OUTSIDE}="$(flux getattr parent-uri 2>/dev/null)"',
    )
    job_variables = ("FLUX_ENCLOSING_ID",)
    spread = ("flux", "exec", "--noinput")
    # As resources are named, which is how `flux run --requires=host:…` wants them.
    node = f"{_NODES} --include=$(flux getattr rank)"
    hosts = f"flux hostlist --expand --delimiter=' ' $({_NODES})"
    share = (
        "sh",
        "-c",
        'exec flux exec --noinput --rank="$(echo $DIEL_NODE_NUMBERS | tr " " ,)" "$@"',
        "spread",
    )
    elsewhere = ("--queue", "-q")
    queues_by = ("flux", "batch")
    held = ("--urgency=0",)
    ends_by = ("flux", "cancel")
    accepted = r"^(f[1-9A-HJ-NP-Za-km-z]+)\s*$"
    outputs = r"^#flux: --(?:output|error)=(.+)$"
    busy = (
        r"Unable to connect|broker socket|Connection (refused|reset)|No route to host|lost contact|timed out"
        r"|Function not implemented|No service matching|temporarily unavailable|submission is disabled"
    )
    settled = r"unknown job id|job is inactive|No matching jobs"
    speaker = r"\bflux-\w+: (ERROR: )?"

    def options(self, job: Job) -> Iterable[tuple[str, object]]:
        # The submitting shell's variables stay out but for those by which flux itself is found.
        variables = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", f"{_PATH}=$PATH")
        return (
            ("--job-name={}", job.name),
            ("--output={}", quoted(job.stdout)),
            ("--error={}", quoted(job.stderr)),
            ("--queue={}", job.queue),
            ("--bank={}", job.account),
            ("--nodes={}", job.nodes),
            ("--nslots={}", job.nodes),
            ("--cores-per-slot={}", job.cores),
            ("--gpus-per-slot={}", job.gpus),
            ("--time-limit={:.0f}s", job.walltime),
            ("--requires=-host:{}", ",".join(job.exclude)),
            ("--dependency=afterany:{}", job.after),
            *(("--env={}", name) for name in ("-*", *variables)),
        )

    def jobs(self, ids: list[str]) -> list[tuple[str, str, JobStatus]]:
        answer = self.ask("flux", "jobs", "--no-header", f"--format={_FORMAT}", *ids)
        jobs = list(parse_jobs(answer))
        unknown = re.findall(r"^JobID (\S+) unknown", answer.err, re.MULTILINE)
        if silent := set(ids) - {number for number, _, _ in jobs} - set(unknown):
            raise SchedulerBusy(f"flux jobs does not name {', '.join(sorted(silent))}: {self.words(answer)}")
        if answer.code != 0 and not ids:
            raise SchedulerBusy(f"flux jobs: {self.words(answer)}")
        return jobs

    def environment(self, outside: Mapping[str, str]) -> dict[str, str]:
        # LC_ALL=C has no letter for the ƒ of ids.
        inner = {**super().environment(outside), "FLUX_F58_FORCE_ASCII": "1"}
        return {**inner, "FLUX_URI": outside[_OUTSIDE]} if outside.get(_OUTSIDE) else inner

    def dialect(self) -> Dialect | None:
        if shutil.which("flux") is None:
            return None
        return Dialect(self.output("flux", "getattr", "version").strip())

    def offer(self) -> Offer:
        queues = self._lines("queue", "list", "--format={queuem}|{limits.timelimit!F}")
        nodes = self._lines("resource", "list", "--states=all", "--format={queue}|{rlist}")
        return Offer(list(parse_queues(queues)), gathered(parse_resources(nodes)))

    def _lines(self, *words: str) -> list[str]:
        answer = self.output("flux", *words, "--no-header", timeout=2 * QUESTION)
        return [line.strip() for line in answer.splitlines() if line.strip()]


def parse_jobs(answer: Answer) -> Iterator[tuple[str, str, JobStatus]]:
    """Id, name and state of each job in an answer of flux jobs. Raise SchedulerBusy for any other line."""
    for line in answer.out.splitlines():
        fields = line.strip().split("|", _FORMAT.count("|"))
        if len(fields) <= _FORMAT.count("|"):
            raise SchedulerBusy(f"flux jobs answered with something else than jobs: {line.strip()[:200]}")
        number, name, *words = fields
        yield number, name, _status(*words)


def _status(state: str, result: str, code: str, kind: str, nodes: str, info: str, note: str) -> JobStatus:
    job_state = STATES.get(result if state == "INACTIVE" else state, JobState.RUNNING)
    if not job_state.ended:
        return JobStatus(job_state, info if job_state is JobState.PENDING else "", nodes=nodes)
    if job_state is JobState.COMPLETED:
        return JobStatus(job_state, "", 0, nodes)
    number = int(code) if re.fullmatch(r"-?\d+", code) else None
    if number is not None and number < 0:
        number = 128 - number if nodes else None  # a signal; -128 means a job that never began
    reason = ": ".join(part for part in (kind, note) if part) or f"exit code {number}"
    if job_state is JobState.FAILED and (kind == "node-failure" or "lost contact" in note):
        job_state = JobState.NODE_FAILED
    # What can never be had ends at once, by an exception in place of an allocation.
    return JobStatus(job_state, reason, number, nodes, hopeless=kind == "alloc" and not nodes)


def parse_queues(lines: Iterable[str]) -> Iterator[Queue]:
    """Of `flux queue list -o {queuem}|{limits.timelimit!F}`; without queues there is one of no name."""
    for line in lines:
        name, _, limit = line.partition("|")
        if name:
            yield Queue(name.rstrip("*"), _duration(limit), default=name.endswith("*"))


def _duration(text: str) -> float | None:
    """Return seconds of a duration in Flux's standard form (RFC 23): `1.5h`; None of `inf`."""
    match = re.fullmatch(r"([\d.]+)(ms|[smhd]?)", text)
    return float(match[1]) * {"ms": 0.001, "m": 60, "h": 3600, "d": 86400}.get(match[2], 1) if match else None


def parse_resources(lines: Iterable[str]) -> Iterator[NodeKind]:
    """Of `flux resource list -o {queue}|{rlist}`: `batch|rank[0-3]/core[0-1],gpu0 rank4/core[0-7]`."""
    for line in lines:
        queues, _, rlist = line.partition("|")
        for ranks, children in re.findall(r"rank(\[[\d,-]+\]|\d+)/(\S+)", rlist):
            has = {kind: _count(ids) for kind, ids in re.findall(r"([a-z]+)(\[[\d,-]+\]|\d+)", children)}
            cores = has.get("core", 0)
            for queue in queues.split(","):
                yield NodeKind(queue, _count(ranks), cores, cores, 0, has.get("gpu", 0))


def _count(ids: str) -> int:
    """Count the numbers in `3` or `[0-3,7]`."""
    parts = (part.partition("-") for part in ids.strip("[]").split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)
