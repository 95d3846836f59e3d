"""Copies artifacts to the node's disk: whole files, large ones in parts, several at once.

`python -m diel.staging.bring PLAN` does so on each node of a task that has nodes of its own. Several copies
are open at once for network file systems; from disk to disk 1 to 8 are alike (0.8 to 1.9 GB/s).
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from diel.copying import PART, Check, copy_file, no_check
from diel.files import put
from diel.staging.disk import Disk, StagingError, own_disk
from diel.staging.item import Item, Local

AT_ONCE = 8
"""Files, or parts of one, that one process copies at the same time."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)

NOTES = ".staging-"
"""The prefix of files in which processes of a task tell its worker what they copied."""


class Brought(NamedTuple):
    """What was done to bring a task's artifacts to the node."""

    copied: int = 0
    bytes: int = 0
    found: int = 0
    """Artifacts that were there, or that another process copied meanwhile."""
    seconds: float = 0.0
    folder: str = ""
    warning: str = ""
    """Why the shared file system is read instead; empty if all is there."""


def bring(disk: Disk, items: Sequence[Item], check: Check = no_check, tag: str = "") -> Brought:
    """Make sure that artifacts stay on the node's disk until `release`, or two later tags `WHAT/…`. Raise
    StagingError where there is no room or the disk fails; OSError where a source cannot be read."""
    began = time.monotonic()
    try:
        if tag:
            disk.turn(tag.rpartition("/")[0])
        missing = disk.hold(items, tag)
        if not missing:
            return Brought(found=len(items), folder=disk.root)
        with ThreadPoolExecutor(min(AT_ONCE, len(missing))) as pool:
            sizes = list(pool.map(lambda item: size_of(item.source), missing))
            disk.make_room({item.key: size for item, size in zip(missing, sizes, strict=True)}, tag)
            wide: list[Item] = []  # one of these alone keeps all threads busy
            small: list[Item] = []
            for item, size in zip(missing, sizes, strict=True):
                (wide if size >= 2 * PART or os.path.isdir(item.source) else small).append(item)
            copied = [_copy(disk, item, check, pool) for item in wide]
            copied += pool.map(lambda item: _copy(disk, item, check, None), small)
    except OSError as error:
        if error.errno in _FULL or str(error.filename or "").startswith(disk.root):
            raise StagingError(f"{disk.root}: {error.strerror}") from error
        raise
    brought = [size for size in copied if size is not None]
    seconds = round(time.monotonic() - began, 6)
    return Brought(len(brought), sum(brought), len(items) - len(brought), seconds, disk.root)


def size_of(path: str) -> int:
    """Return bytes of a file, or of all files of a directory."""
    if not os.path.isdir(path):
        return os.stat(path).st_size
    files = (os.path.join(folder, name) for folder, _, names in walk(path) for name in names)
    return sum(os.stat(file).st_size for file in files if os.path.isfile(file))


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk`, but raises OSError for a directory that cannot be read."""

    def refuse(error: OSError) -> None:
        raise error

    return os.walk(path, onerror=refuse)


def _copy(disk: Disk, item: Item, check: Check, pool: ThreadPoolExecutor | None) -> int | None:
    """Copy an artifact, with a pool side by side; return its bytes, or None if another process did."""
    with disk.making(item, check) as part:
        if part is None:
            return None
        target = f"{part}/d/{item.name}"
        if pool is None or not os.path.isdir(item.source):
            size = copy_file(item.source, target, check, pool)
        else:
            files = tree(item.source, target)
            large = [pair for pair in files if os.stat(pair[0]).st_size >= 2 * PART]
            size = sum(copy_file(source, place, check, pool) for source, place in large)
            size += sum(
                pool.map(lambda pair: copy_file(pair[0], pair[1], check), sorted({*files} - {*large}))
            )
        with open(f"{part}/size", "w", encoding="ascii") as file:
            file.write(str(size))
        return size


def tree(source: str, target: str) -> list[tuple[str, str]]:
    """Make a tree's directories, and return its plain files with their places. Raise OSError."""
    files = []
    for folder, folders, names in walk(source):
        here = target + folder[len(source) :]
        os.mkdir(here)
        for name in list(folders):
            if os.path.islink(f"{folder}/{name}"):  # another tree: it stays where it is
                os.symlink(os.path.realpath(f"{folder}/{name}"), f"{here}/{name}")
                folders.remove(name)
        files += [(f"{folder}/{n}", f"{here}/{n}") for n in names if os.path.isfile(f"{folder}/{n}")]
    return files


def fetch(
    items: Sequence[Item], local: Local, environ: Mapping[str, str], check: Check = no_check, tag: str = ""
) -> tuple[Brought, str]:
    """Copy artifacts to this node's disk; return their directory, or a warning, or neither: no gain."""
    try:
        disk = own_disk(local, environ)
        device = os.stat(disk.root).st_dev
        if not disk.named and all(os.stat(item.source).st_dev == device for item in items):
            return Brought(found=len(items)), ""
        return bring(disk, items, check, tag), disk.entries
    except StagingError as error:
        return Brought(warning=str(error)), ""
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return Brought(warning=f"{where}{error.strerror}"), ""


_notes: list[Brought] = []


def note(brought: Brought) -> None:
    """Keep what was copied for the end of the task."""
    _notes.append(brought)


def take_notes() -> list[Brought]:
    """Return what was copied since the last call because a part was drawn."""
    notes = list(_notes)
    _notes.clear()
    return notes


def leave_notes(task_dir: str) -> None:
    """Tell the worker of the task what this process copied."""
    _leave(task_dir, (brought for brought in take_notes() if brought.copied or brought.warning))


def _leave(task_dir: str, notes: Iterable[Brought]) -> None:
    for number, brought in enumerate(notes):
        place = f"{task_dir}/{NOTES}{os.uname().nodename}-{os.getpid()}-{number}.json"
        put(place, json.dumps(brought._asdict()))


def read_notes(task_dir: str) -> list[Brought]:
    """Read and remove what processes of a task left."""
    notes = []
    for path in sorted(Path(task_dir).glob(f"{NOTES}*.json")):
        notes.append(Brought(**json.loads(path.read_text(encoding="utf-8"))))
        path.unlink()
    return notes


def main() -> None:
    """Carry out the plan that the task's worker left, and report back."""
    items, local, task_dir = pickle.loads(Path(sys.argv[1]).read_bytes())  # noqa: S301 - from the worker
    _leave(task_dir, [fetch(items, local, os.environ)[0]])


if __name__ == "__main__":
    main()
