"""Trials of a pool: a tiny job that reports from its node, and a real run with two MPI ranks."""

import contextlib
import hashlib
import hmac
import json
import os
import platform
import secrets
import shlex
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, cast

from pydantic import BaseModel

from diel.backends.blocks.script import exports
from diel.base.carried import PYTHON
from diel.base.errors import DielError, UsageError, counted
from diel.base.values import format_duration, format_size
from diel.doctor import probe
from diel.doctor.machine import CORE, MOST_SKEW, Finding, existing, last, start_words
from diel.doctor.probe import version_of
from diel.site.scheduler import Job, JobStatus, SchedulerBusy, SchedulerRefused, scheduler_named
from diel.site.shape import cores_of
from diel.site.site import Site
from diel.store.journal.history import History
from diel.store.journal.snapshot import read_run
from diel.store.project.runs import find_run
from diel.worker.attempt.addresses import addresses

WALLTIME = 300.0
LAG = 10.0
"""Seconds after a job's end until its report must be visible: file systems cache."""
TAIL = 3
MEET = "from mpi4py import MPI; found = MPI.COMM_WORLD.allreduce(1); assert found == 2, f'{found} of 2 ranks'"
LAST_WORDS = 60.0
"""Seconds that a run has to give back its blocks after SIGTERM."""
WAIT_LONGER = "a full queue is not the site file's fault: wait longer (--wait 1h), or try one --pool NAME"


def try_jobs(
    site: Site, name: str | None, pools: Sequence[str], runs: Path, wait: float, tell: Callable[[str], None]
) -> Iterator[Finding]:
    """Run a tiny job in each pool, and a real run if that found nothing wrong. `name` is the site as it was
    asked for; `wait` in seconds, for each of the two; `tell` gets why they wait."""
    try:
        temporary = tempfile.TemporaryDirectory(
            prefix=".diel-doctor-", dir=existing(runs), ignore_cleanup_errors=True
        )
    except OSError as error:
        problem = f"no directory for it in {existing(runs)}: {error.strerror}"
        yield Finding("job", False, problem, "see 'runs'")
        return
    good = dict.fromkeys(pools, False)
    with temporary as folder:
        with Ear() as ear:
            for finding in _Trials(site, Path(folder), ear, tell).run(pools, wait):
                pool, _, what = finding.name.partition(": ")
                if what == "job":
                    good[pool] = finding.ok
                elif finding.required and not finding.ok:
                    good[pool] = False
                yield finding
        yield from _try_runs(site, name, [pool for pool in pools if good[pool]], Path(folder), wait, tell)


@dataclass
class _Trial:
    pool: str
    stem: str
    """Of its files' names."""
    id: str
    began: float
    """When it was submitted, by the monotonic clock."""
    ended: float | None = None
    """When its end or its report was first seen."""
    status: JobStatus | None = None
    message: str = ""
    """The last reason for waiting that was shown."""
    report: "Report | None" = None

    @property
    def state(self) -> str:
        return "not known" if self.status is None else self.status.words

    def is_settled(self, answered: bool) -> bool:
        """Return whether there is nothing more to wait for."""
        status = self.status
        over = answered and (status is None or status.state.ended)
        if status is not None and status.hopeless:
            return True
        if not over and self.report is None:
            return False
        if self.ended is None:
            self.ended = time.monotonic()
        whole = self.report is not None and self.report.written is not None
        return (over and whole) or time.monotonic() - self.ended > LAG


class _Trials:
    def __init__(self, site: Site, folder: Path, ear: "Ear", tell: Callable[[str], None]) -> None:
        self._site = site
        self._folder = folder
        self._ear = ear
        self._tell = tell
        self._scheduler = scheduler_named(site.scheduler)
        self._under_way: list[_Trial] = []
        token = secrets.token_hex(32)
        (folder / "token").write_text(token, encoding="utf-8")
        self._digest = hashlib.sha256(token.encode()).hexdigest()

    def run(self, pools: Sequence[str], wait: float) -> Iterator[Finding]:
        try:
            for number, pool in enumerate(pools):
                yield from self._submit(pool, f"p{number}")
            yield from self._watch(wait)
        finally:
            if self._under_way:
                with contextlib.suppress(SchedulerBusy):
                    self._scheduler.cancel([trial.id for trial in self._under_way])

    def _submit(self, pool: str, stem: str) -> Iterator[Finding]:
        script = self._folder / f"{stem}.sh"
        try:
            text = self._scheduler.script(self._job(pool, stem))
            script.touch(mode=0o600)
            script.write_text(text, encoding="utf-8", errors="surrogateescape")
            job = self._scheduler.submit(script)
        except SchedulerRefused as error:
            fix = f"fix pool '{pool}' in the site file: its queue, account or options"
            # A queue can want more nodes than a trial asks for: the pool is not to blame.
            required = self._site.pools[pool].block_nodes == 1
            yield Finding(f"{pool}: job", False, f"the scheduler refuses it: {error}", fix, required)
        except SchedulerBusy as error:
            refusal = f"the scheduler does not take it: {error}"
            yield Finding(f"{pool}: job", False, refusal, "try again later")
        else:
            self._tell(f"pool '{pool}': job {job} is submitted")
            self._under_way.append(_Trial(pool, stem, job, time.monotonic()))

    def _job(self, pool: str, stem: str) -> Job:
        """Return the job: like a block of the pool, but one core of one node for minutes."""
        site, limits, folder = self._site, self._site.pools[pool], self._folder
        reached = ""
        with contextlib.suppress(UsageError):
            reached = ",".join(addresses(site.address))
        words = [*PYTHON, str(Path(probe.__file__).resolve()), str(folder), stem, str(self._ear.port)]
        words += [reached, start_words(site, None)[0], ",".join(("diel", *CORE))]
        # The token is a variable, not an argument: everybody on the node can see a command's arguments.
        variables = exports(DIEL_DOCTOR_LOCAL=site.local.dir or "", DIEL_DOCTOR_TOKEN=self._ear.token)
        return Job(
            name="diel-doctor",
            command="\n".join([*variables, f"exec {shlex.join(words)}"]),
            folder=folder,
            stdout=folder / f"{stem}.out",
            stderr=folder / f"{stem}.err",
            nodes=1,
            cores=1,
            walltime=min(WALLTIME, limits.longest),
            gpus=1 if limits.gpus else 0,
            queue=limits.queue,
            account=limits.account or site.account,
            options=(*site.options, *limits.options),
            setup=(*site.setup, *limits.setup),
        )

    def _watch(self, wait: float) -> Iterator[Finding]:
        """Wait for the jobs; drop each once it need not be cancelled."""
        end, pause, trouble = time.monotonic() + wait, 0.2, ""
        while self._under_way:
            before, answered = trouble, True
            try:
                statuses = self._scheduler.query([trial.id for trial in self._under_way])
                trouble = ""
            except SchedulerBusy as error:
                answered, trouble = False, f"the scheduler does not answer: {error}"
                if trouble != before:
                    self._tell(trouble)
            for trial in list(self._under_way):
                if answered:
                    trial.status = statuses.get(trial.id)
                self._look(trial)
                if trial.is_settled(answered):
                    self._under_way.remove(trial)
                    yield from self._findings(trial)
                elif trial.ended is None and (words := f"job {trial.id} is {trial.state}") != trial.message:
                    trial.message = words
                    self._tell(f"pool '{trial.pool}': {words}")
            if self._under_way and time.monotonic() > end:
                break
            if self._under_way:
                time.sleep(pause)
                pause = min(1.5 * pause, self._site.poll)
        for trial in self._under_way:
            verdict = f"{trial.id} is {trial.state} after {format_duration(wait)}"
            verdict += f"{trouble and f'; {trouble}'}; cancelled"
            yield Finding(f"{trial.pool}: job", False, verdict, WAIT_LONGER, required=False)

    def _look(self, trial: _Trial) -> None:
        trial.report = trial.report or self._ear.reports.get(trial.stem)
        path = self._folder / f"{trial.stem}.json"
        with contextlib.suppress(OSError, ValueError):
            os.listdir(self._folder)  # makes NFS look again
            report = Report.model_validate_json(path.read_bytes())
            trial.report = report.model_copy(update={"written": path.stat().st_mtime})

    def _findings(self, trial: _Trial) -> Iterator[Finding]:
        name, status, report = f"{trial.pool}: job", trial.status, trial.report
        if report is not None:
            waited = (trial.ended or time.monotonic()) - trial.began
            verdict = f"{trial.id} reported from {report.host} {waited:.1f} s after it was submitted"
            yield Finding(name, True, verdict)
            yield from read_report(self._site, trial.pool, report, self._digest)
        elif status is not None and status.hopeless:
            fix = f"fix pool '{trial.pool}' in the site file: it asks for what the queue cannot give"
            yield Finding(name, False, f"{trial.id} can never run: {status.reason}", fix)
        else:
            how = "is gone" if status is None else f"ended as {status.words}"
            code = "" if status is None or status.exit_code is None else f", exit code {status.exit_code}"
            fix = (
                f"this Python ({sys.executable}) and {self._folder.parent} must be there on the nodes: "
                "install diel on a file system that they share, load what it needs in `setup`, keep runs on "
                "one with --runs DIR"
            )
            tail = _tail(self._folder / f"{trial.stem}.err")
            yield Finding(name, False, f"{trial.id} {how}{code} without a report{tail}", fix)


def _tail(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "; none of its output is visible here"
    lines = [line for line in text.splitlines() if line.strip()]
    return f"; it says: {' / '.join(lines[-TAIL:])}" if lines else ""


@dataclass
class _Try:
    pool: str
    folder: Path
    process: subprocess.Popen[bytes]
    ranks: bool

    def history(self) -> History:
        """Return the run's records so far. Raise DielError if there are none."""
        return read_run(find_run(self.folder / "runs")).history


def _try_runs(
    site: Site, name: str | None, pools: Sequence[str], folder: Path, wait: float, tell: Callable[[str], None]
) -> Iterator[Finding]:
    """Run a workflow of one task in each pool and yield the results; no run or job is left."""
    tries: list[_Try] = []
    try:
        for number, pool in enumerate(pools):
            tries.append(_start(site, name, pool, folder / str(number)))
            tell(f"pool '{pool}': a run of one task is started, like any other run")
        end = time.monotonic() + wait
        for trial in tries:
            yield _ended(trial, end, wait)
    finally:
        for trial in tries:
            _stop(trial)


def _start(site: Site, name: str | None, pool: str, folder: Path) -> _Try:
    """Start the run in the current directory, where it finds the same site file. Raise OSError."""
    folder.mkdir()
    offer = site.pools[pool]
    ranks = version_of("mpi4py") is not None and (cores_of(offer) > 1 or offer.block_nodes > 1)
    spans = {"nodes": 2, "ranks_per_node": 1} if offer.block_nodes > 1 else {"ranks": 2}
    stage = {
        "command": [*PYTHON, "-c", MEET] if ranks else ["true"],
        "resources": {"pool": pool, **(spans if ranks else {})},
    }
    document = {"diel": 1, "name": "doctor", "stages": {"ranks": stage}}
    (folder / "doctor.yaml").write_text(json.dumps(document), encoding="utf-8")
    command = [*PYTHON, "-m", "diel", "run", str(folder / "doctor.yaml"), "-q", "--no-cache"]
    command += ["--runs", str(folder / "runs"), *(["--site", name] if name else [])]
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    return _Try(pool, folder, process, ranks)


def _ended(trial: _Try, end: float, wait: float) -> Finding:
    name = f"{trial.pool}: run"
    try:
        code = trial.process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        verdict = f"not done after {format_duration(wait)}{_stands(trial)}; stopped"
        return Finding(name, False, verdict, WAIT_LONGER, required=False)
    if code == 0:
        met = "two MPI ranks met" if trial.ranks else "ranks were not tried: mpi4py or cores are missing"
        return Finding(name, True, f"a task of a real run was done in a block; {met}")
    with contextlib.suppress(DielError, OSError):
        history = trial.history()
        failure = history.failures.get(("ranks", 0))
        if failure is not None and history.workers:
            fix = "fix `launcher` or `setup` in the site file (docs/sites.md, MPI between nodes)"
            verdict = f"its workers started, but two ranks did not meet: {failure['message']}"
            stderr = str(failure.get("stderr_tail", ""))
            return Finding(name, False, f"{verdict} ({last(stderr)})" if stderr.strip() else verdict, fix)
    fix = "run a workflow of one task on this site by hand to see more: `diel status` and `diel explain` tell"
    output = last((trial.folder / "out").read_text("utf-8", "replace"))
    return Finding(name, False, f"no worker took a task{_stands(trial)}; {output}", fix)


def _stands(trial: _Try) -> str:
    """Tell the state of its blocks, and what the scheduler says."""
    facts: list[str] = []
    with contextlib.suppress(DielError, OSError):
        history = trial.history()
        for block in history.blocks.values():
            reason = f" ({block['reason']})" if block["reason"] else ""
            facts.append(f"block {block['job'] or block['block']} is {block['state']}{reason}")
        facts += filter(None, (history.silent, history.trouble))
    return "".join(f"; {words}" for words in facts)


def _stop(trial: _Try) -> None:
    if trial.process.poll() is None:
        trial.process.send_signal(signal.SIGTERM)
        try:
            trial.process.wait(LAST_WORDS)
        except subprocess.TimeoutExpired:
            trial.process.kill()
            trial.process.wait()


MOST = 1 << 16
PATIENCE = 10.0
"""Seconds that a connected job has to report."""


class NodeDisk(BaseModel):
    """A node's own disk, or why nothing can be kept there."""

    dir: str = ""
    free: int = 0
    error: str = ""


class Report(BaseModel):
    """What `diel/doctor/probe.py` found on a node."""

    pool: str = ""
    """Its stem in the doctor's folder."""
    host: str = ""
    python: str = ""
    version: str = ""
    packages: dict[str, str | None] = {}
    token: str = ""
    """The digest of the file that the doctor left."""
    cores: int = 0
    host_cores: int = 0
    memory: int = 0
    gpus: dict[str, str] = {}
    launcher: str | None = None
    local: NodeDisk | None = None
    time: float = 0.0
    reached: str = ""
    """The address by which the node reached the doctor."""
    refused: dict[str, str] = {}
    """Why it could not be reached, by address."""
    written: float | None = None
    """The time of its file; None if it came over the network alone."""


class Ear(socketserver.ThreadingTCPServer):
    """A port, open inside the `with` block, and the reports heard there, by pool, of who knows the token."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("0.0.0.0", 0), _Talk)  # jobs come from other nodes
        self.token = secrets.token_hex(32)
        self.reports: dict[str, Report] = {}

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore whoever breaks off or sends something else than a report."""


class _Talk(socketserver.StreamRequestHandler):
    timeout = PATIENCE

    def handle(self) -> None:
        challenge, ear = secrets.token_hex(32).encode(), cast(Ear, self.server)
        self.wfile.write(challenge + b"\n")
        self.wfile.flush()
        proof, _, body = self.rfile.readline(MOST).rstrip(b"\n").partition(b" ")
        expected = hmac.new(ear.token.encode(), challenge + body, hashlib.sha256).hexdigest().encode()
        if hmac.compare_digest(proof, expected):
            report = Report.model_validate_json(body)
            ear.reports[report.pool] = report
            self.wfile.write(b"ok\n")


def read_report(site: Site, pool: str, report: Report, digest: str) -> Iterator[Finding]:
    """Return the findings about one pool; `digest` is that of the file for the doctor's job."""
    return (replace(entry, name=f"{pool}: {entry.name}") for entry in _findings(site, pool, report, digest))


def _findings(site: Site, pool: str, report: Report, digest: str) -> Iterator[Finding]:
    yield _python(report)
    yield _packages(report)
    yield _files(report, digest)
    if report.written is not None:
        yield _clock(report, report.written)
    yield _network(site, report)
    yield _node(report, gpus=bool(site.pools[pool].gpus))
    # A scheduler can think that a node has more cores than it has.
    if 0 < report.host_cores < (cores := cores_of(site.pools[pool])):
        verdict = f"the node has {report.host_cores}, and the pool says {cores}: its tasks share them"
        fix = f"write `cores: {report.host_cores}` in the site file, unless that is on purpose"
        yield Finding("cores", False, verdict, fix, required=False)
    if report.local is not None:
        yield _local(site, report.local)
    if report.launcher:
        yield Finding("launcher", True, report.launcher, required=False)
    else:
        fix = "load the module that has it in `setup` of the site or the pool, or correct `launcher`"
        lacking = f"no '{start_words(site, None)[0]}' on the node"
        yield Finding("launcher", False, lacking, fix, required=False)


def _python(report: Report) -> Finding:
    here, there = platform.python_version(), f"{report.version}, {report.python}"
    if report.version.split(".")[:2] == here.split(".")[:2]:
        return Finding("python", True, there)
    fix = f"let workers start the Python that controllers use ({here}, {sys.executable})"
    return Finding("python", False, f"{there}, but {here} here", fix)


def _packages(report: Report) -> Finding:
    there, here = report.packages, {name: version_of(name) for name in ("diel", *CORE)}
    differing = [
        f"{name} {there.get(name) or 'not installed'} (here {version or 'not installed'})"
        for name, version in here.items()
        if there.get(name) != version
    ]
    if not differing:
        return Finding("packages", True, f"diel {there.get('diel')} and what it needs, as here")
    fix = "use one installation on a file system that nodes share, or the same versions in both"
    return Finding("packages", False, "; ".join(differing), fix)


def _files(report: Report, digest: str) -> Finding:
    reads = report.token == digest
    if reads and report.written is not None:
        return Finding("files", True, "the node reads and writes the same directory of the runs")
    verdict = (
        "the node reads the directory of the runs, but this host does not see what it writes there"
        if reads
        else "the node does not see what this host writes into the directory of the runs"
    )
    return Finding("files", False, verdict, "give a directory that nodes share with --runs DIR or DIEL_RUNS")


def _clock(report: Report, written: float) -> Finding:
    skew = written - report.time
    # Before it wrote, the job tried to reach this host: a failure takes time.
    if -MOST_SKEW <= skew <= MOST_SKEW + 6.0 * len(report.refused):
        within = f"the node's clock is within {max(abs(skew), 0.1):.1f} s of the files' times"
        return Finding("clock", True, within)
    fix = "the node's clock and the file server's differ: tell the administrators (NTP)"
    return Finding("clock", False, f"the node's clock differs by {abs(skew):.0f} s", fix)


def _network(site: Site, report: Report) -> Finding:
    if report.reached:
        return Finding("network", True, f"the node reaches this host at {report.reached}")
    tried = "; ".join(f"{host}: {why}" for host, why in report.refused.items())
    home = site.controller.home
    fix = (
        "set `address` in the site file to the interface or address at which nodes reach this host, let its "
        "firewall pass them, or let controllers live in jobs: controller: {home: job}"
    )
    verdict = f"the node cannot reach this host ({tried or 'there was no address to try'})"
    if home != "login":
        verdict += f"; controllers of this site live in jobs ({home}), not here"
    return Finding("network", False, verdict, fix, required=home == "login")


def _node(report: Report, *, gpus: bool) -> Finding:
    verdict = f"{counted(report.cores, 'core')} given, {format_size(report.memory)} of memory"
    verdict += "".join(f", {name}={value}" for name, value in report.gpus.items())
    if not gpus or report.gpus:
        return Finding("node", True, verdict)
    fix = "check whether `gpus` and `options` of the pool ask for GPUs as this cluster expects"
    return Finding("node", False, f"{verdict}; no variable says which GPUs it got", fix, required=False)


def _local(site: Site, disk: NodeDisk) -> Finding:
    if disk.error or "$" in disk.dir:
        why = "a variable in it is not set on the node" if "$" in disk.dir else disk.error
        fix = "set `local: {dir: …}` in the site file to a directory that each node has to itself"
        verdict = f"{disk.dir}: {why}; inputs are not staged there"
        return Finding("local disk", False, verdict, fix, required=False)
    verdict, limit = f"{disk.dir}, {format_size(disk.free)} free", site.local.size
    if limit is None or limit <= disk.free:
        return Finding("local disk", True, verdict)
    verdict += f", less than the {format_size(limit)} that diel may keep"
    fix = "set `local.size` in the site file to what the nodes have"
    return Finding("local disk", False, verdict, fix, required=False)
