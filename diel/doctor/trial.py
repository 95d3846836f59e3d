"""One tiny job in each pool, which looks round on its node and reports back."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diel.blocks.job import CARRIED
from diel.doctor import probe
from diel.doctor.ear import Ear
from diel.doctor.finding import Finding
from diel.doctor.folder import existing
from diel.doctor.machine import CORE
from diel.doctor.network import addresses
from diel.doctor.report import read_report
from diel.scheduler import Job, JobStatus, Scheduler, SchedulerBusy, SchedulerRefused, scheduler_named
from diel.site import Site
from diel.values import format_duration

WALLTIME = 300.0
"""Seconds that a trial job asks for."""
LAG = 10.0
"""Seconds that a report may need to be seen here after its job has ended: file systems cache."""
TAIL = 3
"""Lines of a job's stderr that are shown."""


@dataclass
class _Trial:
    """The job of one pool."""

    pool: str
    stem: str
    id: str
    began: float
    """When it was submitted, by the monotonic clock."""
    ended: float | None = None
    """When its end, or its report, was first seen."""
    status: JobStatus | None = None
    said: str = ""
    """The last reason for waiting that the user read."""
    report: dict[str, Any] | None = None


def trials(
    site: Site, pools: Sequence[str], runs: Path, wait: float, tell: Callable[[str], None]
) -> Iterator[Finding]:
    """Submits a job to each pool and yields what each found, as it comes; whatever happens, none is left.

    `wait` is in seconds; `tell` gets why jobs wait.
    """
    scheduler = scheduler_named(site.scheduler)
    try:
        folder = Path(tempfile.mkdtemp(prefix=".diel-doctor-", dir=existing(runs)))
    except OSError as error:
        found = f"no directory for it in {existing(runs)}: {error.strerror}"
        yield Finding("job", False, found, "see 'runs'")
        return
    under_way: list[_Trial] = []
    try:
        (folder / "token").write_text(secrets.token_hex(32), encoding="utf-8")
        with Ear() as ear:
            for number, pool in enumerate(pools):
                submitted = _submit(site, pool, f"p{number}", folder, scheduler, ear)
                if isinstance(submitted, Finding):
                    yield submitted
                else:
                    tell(f"pool '{pool}': job {submitted.id} is submitted")
                    under_way.append(submitted)
            yield from _watched(site, under_way, folder, scheduler, ear, wait, tell)
    finally:
        if under_way:
            with contextlib.suppress(SchedulerBusy):
                scheduler.cancel([trial.id for trial in under_way])
        shutil.rmtree(folder, ignore_errors=True)


def trial_job(site: Site, pool: str, stem: str, folder: Path, port: int, token: str) -> Job:
    """What the scheduler is asked for: as a block of the pool, but one core of one node for minutes.

    It reads this process's environment, and nothing else."""
    asked = site.pools[pool]
    words = [
        sys.executable,
        str(Path(probe.__file__).resolve()),
        str(folder),
        stem,
        str(port),
        ",".join(addresses(site)),
        site.launcher[0],
        ",".join(("diel", *CORE)),
    ]
    variables = {name: os.environ[name] for name in CARRIED if os.environ.get(name)}
    variables["DIEL_DOCTOR_LOCAL"] = site.local.dir or ""
    lines = [
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        # A variable and no word: what a command is called with, everybody on the node can see.
        f"export DIEL_DOCTOR_TOKEN={token}",
        f"exec {shlex.join(words)}",
    ]
    return Job(
        name="diel-doctor",
        command="\n".join(lines),
        folder=folder,
        stdout=folder / f"{stem}.out",
        stderr=folder / f"{stem}.err",
        nodes=1,
        cores=1,
        walltime=min(WALLTIME, asked.longest),
        gpus=1 if asked.gpus else 0,
        queue=asked.queue,
        account=asked.account or site.account,
        options=(*site.options, *asked.options),
        setup=(*site.setup, *asked.setup),
    )


def _submit(
    site: Site, pool: str, stem: str, folder: Path, scheduler: Scheduler, ear: Ear
) -> _Trial | Finding:
    script = folder / f"{stem}.sh"
    name = f"{pool}: job"
    # A queue may want more nodes than a trial asks for: that says nothing against the pool.
    required = site.pools[pool].block_nodes == 1
    try:
        text = scheduler.script(trial_job(site, pool, stem, folder, ear.port, ear.token))
        script.touch(mode=0o600)
        script.write_text(text, encoding="utf-8", errors="surrogateescape")
        job = scheduler.submit(script)
    except SchedulerRefused as error:
        fix = f"correct pool '{pool}' in the site file: its queue, account or options"
        return Finding(name, False, f"the scheduler refuses it: {error}", fix, required)
    except SchedulerBusy as error:
        return Finding(name, False, f"the scheduler does not take it: {error}", "try again later")
    return _Trial(pool, stem, job, time.monotonic())


def _watched(
    site: Site,
    under_way: list[_Trial],
    folder: Path,
    scheduler: Scheduler,
    ear: Ear,
    wait: float,
    tell: Callable[[str], None],
) -> Iterator[Finding]:
    """Waits for the jobs; each leaves `under_way` when it needs no more cancelling."""
    digest = hashlib.sha256((folder / "token").read_bytes()).hexdigest()
    end = time.monotonic() + wait
    pause, busy = 0.2, ""
    while under_way:
        answered, trouble = _ask(scheduler, under_way)
        if trouble and trouble != busy:
            tell(trouble)
        busy = trouble
        for trial in list(under_way):
            _look(trial, folder, ear, answered)
            if _settled(trial, answered is not None):
                under_way.remove(trial)
                yield from _findings(site, trial, folder, digest)
            elif trial.ended is None:
                _tell(trial, tell)
        if under_way and time.monotonic() > end:
            break
        if under_way:
            time.sleep(pause)
            pause = min(1.5 * pause, site.poll)
    for trial in under_way:
        yield _timed_out(trial, wait, busy)


def _ask(scheduler: Scheduler, under_way: Sequence[_Trial]) -> tuple[Mapping[str, JobStatus] | None, str]:
    """How the jobs stand; None, and why, where the scheduler does not answer."""
    try:
        return scheduler.query([trial.id for trial in under_way]), ""
    except SchedulerBusy as error:
        return None, f"the scheduler does not answer: {error}"


def _look(trial: _Trial, folder: Path, ear: Ear, answered: Mapping[str, JobStatus] | None) -> None:
    """Takes in what there is of a job: its state, and its report."""
    if answered is not None:
        trial.status = answered.get(trial.id)
    if trial.report is None:
        trial.report = ear.reports.get(trial.stem)
    path = folder / f"{trial.stem}.json"
    with contextlib.suppress(OSError, ValueError):
        os.listdir(folder)  # lets NFS look anew
        report = json.loads(path.read_text(encoding="utf-8"))
        trial.report = {**report, "written": path.stat().st_mtime}


def _settled(trial: _Trial, answered: bool) -> bool:
    """Whether there is nothing more to wait for."""
    status = trial.status
    over = answered and (status is None or status.state.ended)
    if status is not None and status.hopeless:
        return True
    if not over and trial.report is None:
        return False
    if trial.ended is None:
        trial.ended = time.monotonic()
    whole = trial.report is not None and "written" in trial.report
    return (over and whole) or time.monotonic() - trial.ended > LAG


def _tell(trial: _Trial, tell: Callable[[str], None]) -> None:
    status = trial.status
    reason = f" ({status.reason})" if status is not None and status.reason else ""
    words = f"job {trial.id} is {status.state if status is not None else 'not known yet'}{reason}"
    if words != trial.said:
        trial.said = words
        tell(f"pool '{trial.pool}': {words}")


def _findings(site: Site, trial: _Trial, folder: Path, digest: str) -> Iterator[Finding]:
    name = f"{trial.pool}: job"
    if trial.report is not None:
        waited = (trial.ended or time.monotonic()) - trial.began
        found = f"{trial.id} reported from {trial.report.get('host')} {waited:.1f} s after it was submitted"
        yield Finding(name, True, found)
        yield from read_report(site, trial.pool, trial.report, digest)
        return
    status = trial.status
    if status is not None and status.hopeless:
        fix = f"correct pool '{trial.pool}' in the site file: it asks for what the queue cannot give"
        yield Finding(name, False, f"{trial.id} can never run: {status.reason}", fix)
        return
    how = "is gone" if status is None else f"ended as {status.state}"
    why = f" ({status.reason})" if status is not None and status.reason else ""
    code = f", exit code {status.exit_code}" if status is not None and status.exit_code is not None else ""
    tail = _tail(folder / f"{trial.stem}.err")
    fix = (
        f"this Python ({sys.executable}) and {folder.parent} must be there on the nodes: install diel on a "
        f"file system that they share, load what it needs in `setup`, keep runs on one with --runs DIR"
    )
    yield Finding(name, False, f"{trial.id} {how}{why}{code} without a report{tail}", fix)


def _tail(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "; nothing of its output is to be seen here"
    lines = [line for line in text.splitlines() if line.strip()]
    return f"; it says: {' / '.join(lines[-TAIL:])}" if lines else ""


def _timed_out(trial: _Trial, wait: float, busy: str) -> Finding:
    status = trial.status
    state = status.state if status is not None else "unknown to the scheduler"
    why = f" ({status.reason})" if status is not None and status.reason else ""
    trouble = f"; {busy}" if busy else ""
    found = f"{trial.id} is {state}{why} after {format_duration(wait)}{trouble}; cancelled"
    fix = "a full queue is no fault of the site file: wait longer (--wait 1h), or try one pool (--pool NAME)"
    return Finding(f"{trial.pool}: job", False, found, fix, required=False)
