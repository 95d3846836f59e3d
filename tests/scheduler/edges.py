"""The schedulers that the contract is held against: real ones, and a double of PBS."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from diel.site.scheduler import Job, JobState, JobStatus, Scheduler
from tests.scheduler import pbs_double
from tests.throwaway import wait_for

"""Seconds until a test gives a scheduler up; a real PBS takes 25 to kill what ignores SIGTERM."""


@dataclass
class Edge:
    """A scheduler that is up, and what is known of its cluster."""

    name: str
    scheduler: Scheduler
    folder: Path
    """Where jobs of this test work; every node sees it."""
    take_down: Callable[[], None] | None = None
    """Makes the scheduler's server unreachable; None where that would take it from others."""
    put_back: Callable[[], None] = lambda: None
    tells: bool = True
    """Whether it says how a job ended."""
    walltime: float = 60.0
    """The shortest that it knows, in seconds."""
    impossible: Mapping[str, Any] = field(default_factory=lambda: {"nodes": 99})
    """What makes a job that it can never run."""
    submitted: list[str] = field(default_factory=list)

    def job(self, command: str, **changes: Any) -> Job:
        folder: Path = changes.get("folder", self.folder)
        name = changes.get("name", f"t{len(self.submitted)}{time.time_ns() % 10**9:09d}")
        job = Job(
            name=name,
            command=command,
            folder=folder,
            stdout=folder / f"{name}.out",
            stderr=folder / f"{name}.err",
            nodes=1,
            cores=1,
            walltime=120.0,
        )
        return job._replace(**changes)

    def write(self, job: Job) -> Path:
        script = job.folder / f"{job.name}.sh"
        script.write_text(self.scheduler.script(job), encoding="utf-8")
        return script

    def submit(self, job: Job) -> str:
        number = self.scheduler.submit(self.write(job))
        self.submitted.append(number)
        return number

    def run(self, command: str, **changes: Any) -> tuple[Job, str]:
        job = self.job(command, **changes)
        return job, self.submit(job)

    def status(self, number: str) -> JobStatus | None:
        return self.scheduler.query([number]).get(number)

    def ended(self, number: str) -> JobStatus:
        """How a job ended, once it has."""
        return self.until(number, lambda status: status.state.ended)

    def running(self, number: str) -> JobStatus:
        return self.until(number, lambda status: status.state is JobState.RUNNING)

    def until(self, number: str, holds: Callable[[JobStatus], bool]) -> JobStatus:
        last: list[JobStatus | None] = [None]

        def looked() -> bool:
            last[0] = self.status(number)
            return last[0] is not None and holds(last[0])

        wait_for(looked, words=lambda: f"job {number} stands at {last[0]}")
        assert last[0] is not None
        return last[0]

    def as_told(self, state: JobState) -> JobState:
        """A state as this scheduler tells it."""
        return state if self.tells else JobState.GONE


def text(path: Path) -> str:
    """A file of output, once it is there: some come when the job has ended."""
    wait_for(path.exists, words=lambda: f"no {path}")
    return path.read_text(encoding="utf-8")


def clean_up(edge: Edge) -> None:
    """Leaves no job behind."""
    edge.put_back()
    edge.scheduler.cancel(edge.submitted)
    wait_for(lambda: all(status.state.ended for status in edge.scheduler.query(edge.submitted).values()))


COMMANDS = (
    *("sbatch", "squeue", "scancel", "sacct", "qsub", "qstat", "qdel", "qselect"),
    *("flux", "bsub", "bjobs", "bkill"),
)


def double(name: str, folder: Path) -> tuple[Path, Callable[[], None], Callable[[], None]]:
    """A scheduler's double: the folder for PATH, and how to take its server down and put it back."""
    down = folder / "state" / "down"
    module = import_module(f"tests.scheduler.{name}_double")
    commands = pbs_double.install(folder, module.COMMANDS, module.__file__ or "")
    return commands, down.touch, lambda: down.unlink(missing_ok=True)


def without_slurmctld(config: Path, folder: Path) -> Path:
    """A cluster's slurm.conf with a port where nobody listens."""
    lines = [line for line in config.read_text(encoding="utf-8").splitlines() if "SlurmctldPort" not in line]
    found = folder / "down.conf"
    found.write_text("\n".join([*lines, "SlurmctldPort=1", "MessageTimeout=2", ""]), encoding="utf-8")
    return found


def programs(folder: Path, text: str) -> Path:
    """A folder for PATH in which every command of every scheduler is this shell script."""
    folder.mkdir()
    for name in COMMANDS:
        program = folder / name
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
    return folder


def first_on_path(folder: Path) -> str:
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
