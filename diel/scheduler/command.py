"""A command of a scheduler: run with a time-out, and never believed when it fails."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diel.scheduler.scheduler import SchedulerBusy

TIMEOUT = 30.0
"""Seconds that a scheduler has to answer."""
_FROM_A_JOB = ("SLURM_", "SQUEUE_", "SACCT_", "SINFO_", "PBS_")
_OF_THE_SITE = ("SLURM_CONF", "SLURM_CLUSTERS", "PBS_CONF_FILE", "PBS_DEFAULT", "PBS_SERVER", "PBS_EXEC")


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The first lines of what it says of an error, on one line."""
        return first_lines(self.err + "\n" + self.out) or f"exit code {self.code}, without a word"


def first_lines(text: str) -> str:
    """The first lines of a text that are not empty, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:4])[:600]


def ask(words: Sequence[str], *, timeout: float = TIMEOUT, folder: Path | None = None) -> Answer:
    """Runs a command in a folder (the current one where there is none), with nothing on its stdin.

    Raises SchedulerBusy where there is no such program, and where it has not ended after `timeout`
    seconds; then all that it started in its process group is killed.
    """
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if folder is not None and not folder.is_dir():
            raise SchedulerBusy(f"cannot run `{words[0]}` in {folder}: there is no such folder") from error
        raise SchedulerBusy(
            f"no `{words[0]}` here: use a machine with the scheduler's commands, or put them on PATH"
        ) from error
    except OSError as error:
        raise SchedulerBusy(f"cannot run `{words[0]}`: {error.strerror}") from error
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise SchedulerBusy(f"`{words[0]}` has not answered after {timeout:g} s") from error
    finally:
        _kill(process)
    return Answer(process.returncode, _text(out), _text(err))


def _environment(outside: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables, without what a job or a user's habits would change in the answer.

    Within a job `SLURM_…` describe that job, and sbatch hands them on; `SQUEUE_PARTITION` would hide jobs.
    """
    kept = {k: v for k, v in outside.items() if k in _OF_THE_SITE or not k.startswith(_FROM_A_JOB)}
    return {**kept, "LC_ALL": "C"}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a command that still runs, with its group.

    What left the group may hold the pipes open: they are closed here.
    """
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
