"""An artifact: a file or directory that a task made, in a record and as the value that others read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diel.artifacts.digest import Way, content, file_content
from diel.errors import ModuleError

Artifacts = dict[str, dict[str, Any]]
"""By output: `path` relative to the run's directory, `size` in bytes, `digest`; of a list of files
`files`, each with these three."""


_UNREADABLE = (errno.EACCES, errno.ENAMETOOLONG, errno.ELOOP)
"""What a task has done to its files itself; other errors are the node's or the file system's."""


class Artifact(str):
    """The path of an artifact, which also knows its digest."""

    digest: str

    def __new__(cls, path: str, digest: str) -> Artifact:
        text = super().__new__(cls, path)
        text.digest = digest
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Artifact, (str(self), self.digest)


def files_of(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The files (or the directory) that an entry of a record stands for, each with path, size, digest."""
    files: Sequence[Mapping[str, Any]] | None = entry.get("files")
    return (entry,) if files is None else files


def describe(
    name: str, path: str | Path, task_dir: str | Path, run_dir: str | Path, way: Way = "content"
) -> dict[str, Any]:
    """Path, size and digest of an output. Raises ModuleError where it is missing or elsewhere.

    A few system calls find what lies in the task's directory without links on the way: a task may make
    ten thousand files.
    """
    task, run = os.fspath(task_dir), os.fspath(run_dir)
    whole = os.path.join(task, path)
    inner = os.path.normpath(whole[len(task) + 1 :])
    try:
        if (
            not whole.startswith(f"{task}/")
            or not task.startswith(f"{run}/")
            or ".." in whole
            or _passes_links(task, inner)
        ):
            return _describe_linked(name, Path(path), Path(task), Path(run), way)
        status = os.lstat(whole)
    except (OSError, ValueError) as error:  # a NUL in the path
        raise _missing(name, path, task) from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise _odd(name, path)
    try:
        size, digest = file_content(whole, way) if stat.S_ISREG(status.st_mode) else content(whole, way)
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
        raise ModuleError(f"output '{name}': {path} cannot be read: {error.strerror}") from error
    return {"path": f"{task[len(run) + 1 :]}/{inner}", "size": size, "digest": digest}


def _passes_links(task: str, inner: str) -> bool:
    """Whether a path below the task's directory is a link, or leads through one."""
    end = inner.find("/")
    while end >= 0:
        if os.path.islink(f"{task}/{inner[:end]}"):
            return True
        end = inner.find("/", end + 1)
    return os.path.islink(f"{task}/{inner}")


def _describe_linked(name: str, path: Path, task_dir: Path, run_dir: Path, way: Way) -> dict[str, Any]:
    """The same for a path that needs to be followed: through links, or named by another way."""
    whole = path if path.is_absolute() else task_dir / path
    try:
        real = whole.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links; a NUL in the path
        raise _missing(name, path, task_dir) from error
    if not real.is_relative_to(task_dir.resolve()):
        raise ModuleError(f"output '{name}': {path} is outside the task's directory")
    if not (real.is_file() or real.is_dir()):
        raise _odd(name, path)
    size, digest = content(real, way)
    if ".." in whole.parts or not whole.is_relative_to(run_dir):
        whole, run_dir = real, run_dir.resolve()
    return {"path": os.path.relpath(whole, run_dir), "size": size, "digest": digest}


def _missing(name: str, path: str | Path, task_dir: str | Path) -> ModuleError:
    return ModuleError(f"output '{name}': no file '{path}'; the task wrote {written(task_dir)}")


def written(task_dir: str | Path) -> str:
    """What a task left in its directory, for a message."""
    made = sorted(os.listdir(task_dir)) if os.path.isdir(task_dir) else []
    return ", ".join(entry for entry in made if not entry.startswith("."))[:200] or "nothing"


def _odd(name: str, path: str | Path) -> ModuleError:
    return ModuleError(f"output '{name}': {path} is neither a file nor a directory")
