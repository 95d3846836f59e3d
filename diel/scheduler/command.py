"""A command of a scheduler: run with a time-out, and never believed when it fails."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diel.scheduler.job import SchedulerBusy

TIMEOUT = 30.0
"""Seconds that a scheduler has to answer."""
QUESTION = 10.0
"""Seconds that a question about the cluster may take."""


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The first lines of what it says of an error, on one line."""
        return first_lines(f"{self.err}\n{self.out}") or f"exit code {self.code}, without a word"


def first_lines(text: str) -> str:
    """The first lines of a text that are not empty, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:4])[:600]


def ask(
    words: Sequence[str],
    environ: Mapping[str, str],
    timeout: float = TIMEOUT,
    *,
    folder: Path | None = None,
    stdin: Path | None = None,
) -> Answer:
    """Runs a command in a folder (by default the current one), with a file or nothing on its stdin.

    Raises SchedulerBusy if it cannot be started, or has not ended after `timeout` seconds; then all that
    it started in its process group is killed.
    """
    try:
        with (
            open(stdin or os.devnull, "rb") as given,
            subprocess.Popen(
                words,
                cwd=folder,
                env=environ,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as process,  # at its end the pipes are closed: what left the group may hold them open
        ):
            try:
                out, err = process.communicate(timeout=timeout)
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
    except subprocess.TimeoutExpired as error:
        raise SchedulerBusy(f"`{words[0]}` has not answered after {timeout:g} s") from error
    except FileNotFoundError as error:
        if folder is not None and not folder.is_dir():
            raise SchedulerBusy(f"cannot run `{words[0]}` in {folder}: there is no such folder") from error
        raise SchedulerBusy(
            f"no `{words[0]}` here: use a machine with the scheduler's commands, or put them on PATH"
        ) from error
    except OSError as error:
        raise SchedulerBusy(f"cannot run `{words[0]}`: {error.strerror}") from error
    return Answer(process.returncode, *(data.decode("utf-8", "replace") for data in (out, err)))
