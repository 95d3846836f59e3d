"""The directory of a task that wrote nothing, for the next one: a new one takes as long as `true`.

It is kept while nobody can write there any more: a worker that adopts what tasks leave has no child then.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from diel.worker.attempt.bundle import Request, Work
from diel.worker.attempt.reaper import LEFT, adopt, has_children

PARAMS, INPUTS = ".params.json", ".inputs.json"
"""The files in which a command finds its inputs."""
OWN = frozenset((PARAMS, INPUTS))


class DirectoryPool:
    """At most one directory, and whether one can be kept."""

    def __init__(self) -> None:
        self._kept: tuple[str, int, Sequence[str]] | None = None
        self._adopts = adopt()
        """Whether it adopted all that was left behind so far."""

    def make(self, task_dir: str, work: Work, request: Request) -> None:
        """Make a task's directory, or hand out the kept one if nobody wrote there. Raise OSError."""
        spare, self._kept = self._kept, None
        if spare is None or os.stat(spare[0]).st_mtime_ns != spare[1]:
            os.mkdir(task_dir)
            return
        folder, _, names = spare
        os.rename(folder, task_dir)
        for name in names:
            if work.module is not None or not (request.params if name == PARAMS else request.inputs):
                os.unlink(f"{task_dir}/{name}")  # nobody writes it over

    def keep(self, work: Work, task_dir: str) -> None:
        """Keep the directory of a task that succeeded, wrote nothing, and left no process."""
        if not self._adopts or LEFT or (work.module is not None and has_children()):
            return
        try:
            changed, names = os.stat(task_dir).st_mtime_ns, os.listdir(task_dir)
            if all(name in OWN and _is_own(f"{task_dir}/{name}") for name in names):
                self._kept = task_dir, changed, names
        except FileNotFoundError:  # a function may remove its own directory
            return

    def drop(self, work: Work) -> None:
        """Remove the last one of a bundle, which a command's task keeps."""
        spare, self._kept = self._kept, None
        if spare is not None and work.module is not None:
            with suppress(OSError):
                os.rmdir(spare[0])


def _is_own(path: str) -> bool:
    """Return whether a file can be overwritten: it has no other hard link."""
    status = os.lstat(path)
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and bool(status.st_mode & stat.S_IWUSR)
