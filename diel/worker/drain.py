"""Outputs that a command writes on its node's disk, copied to the run while the worker goes on.

In the task's directory stands a link in the place of each such output, so that the command writes through it
without knowing. The result is committed once the copies stand in the links' places, and not before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from diel.attempt.bundle import Failure, Job, Request
from diel.attempt.space import is_full
from diel.staging.bring import copy_file, no_check, tree
from diel.staging.disk import StagingError, own_disk
from diel.states import FailureClass


@dataclass(frozen=True)
class Drain:
    """One attempt's outputs on the node's disk."""

    folder: str
    task_dir: str
    paths: tuple[str, ...]

    def blame(self, failure: Failure) -> Failure:
        """The failure of a command: a full disk is not its own fault. Another attempt writes elsewhere."""
        if failure.kind != FailureClass.APP or not is_full(self.folder):
            return failure
        message = f"no space left on the node's disk {self.folder} ({failure.message})"
        return Failure(FailureClass.NODE, message, failure.exit_code)

    def copy(self) -> int:
        """Puts the outputs into the places of their links; their bytes. Raises OSError."""
        copied = 0
        for path in self.paths:
            written, link = f"{self.folder}/{path}", f"{self.task_dir}/{path}"
            if not os.path.islink(link):
                continue  # the command put a file of its own there, as programs do that rename
            if not os.path.exists(written):
                os.unlink(link)  # so that it is told missing, and not a link astray
                continue
            part = f"{self.task_dir}/.drain.part"
            if os.path.isdir(written):
                shutil.rmtree(part, ignore_errors=True)
                copied += sum(copy_file(*pair, no_check, shared=False) for pair in tree(written, part))
                os.unlink(link)
            else:
                copied += copy_file(written, part, no_check, shared=False)
            os.rename(part, link)
        return copied

    def close(self) -> None:
        """Deletes what lies on the node's disk."""
        shutil.rmtree(self.folder, ignore_errors=True)


def open_drain(
    job: Job, request: Request, task_dir: str, environ: Mapping[str, str], number: int
) -> Drain | None:
    """Makes the links; None where the task is to write to the run's directory itself.

    So it is from the second attempt on, whatever the first died of. Raises StagingError where the
    node's disk cannot be used.
    """
    assert job.staging is not None
    if request.attempt > 1:
        return None
    folder = own_disk(job.staging.local, environ).drain_dir(number)
    drain = Drain(folder, task_dir, tuple(request.outputs[name] for name in job.staging.drains))
    try:
        for path in drain.paths:
            for root in (folder, task_dir):
                os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
            os.symlink(f"{folder}/{path}", f"{task_dir}/{path}")
    except OSError as error:
        for path in drain.paths:
            with contextlib.suppress(OSError):
                os.unlink(f"{task_dir}/{path}")
        drain.close()
        raise StagingError(f"{folder}: {error.strerror}") from error
    return drain
