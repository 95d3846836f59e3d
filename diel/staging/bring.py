"""Bringing artifacts to the node's disk: whole files at a time, large ones in parts, several at once.

Measured with 512 MiB on two busy cores, from a disk to the same disk and to memory (/dev/shm): 1, 2, 4
and 8 parts at once all copy 0.8 to 1.9 GB/s, which is no difference beside the noise. Several are open at
once for network file systems, where a stream takes the time of its requests, not for what is measured here.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from diel.staging.disk import Disk, StagingError
from diel.staging.item import Item

STREAMS = 8
"""Files, or parts of one, that one process copies at the same time."""
PART = 64 * 1024 * 1024
"""Bytes of a part; a file with more is copied in several at once."""
STEP = 8 * 1024 * 1024
"""Bytes of one call: between two it is seen whether the task was stopped."""
_NOT_HERE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)

Check = Callable[[], None]
"""Called between two pieces of work; raises where that must end."""


@dataclass(frozen=True, slots=True)
class Brought:
    """What it took to have a task's artifacts on the node."""

    copied: int = 0
    """Artifacts that this process copied."""
    bytes: int = 0
    """What they have in bytes."""
    found: int = 0
    """Artifacts that were there, or that another process copied meanwhile."""
    seconds: float = 0.0
    folder: str = ""
    warning: str = ""
    """Why the shared file system is read instead; empty where all is there."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


def no_check() -> None:
    """Nothing ends the work."""


def bring(disk: Disk, items: Sequence[Item], check: Check = no_check, tag: str = "") -> Brought:
    """Makes sure that the artifacts are on the node's disk, and stay there until `release`.

    With a tag `WHAT/…` they stay until two others of that `WHAT` were brought.

    Raises StagingError where there is no room or the disk fails; OSError where a source cannot be read.
    """
    began = time.monotonic()
    try:
        if tag:
            disk.turn(tag.rpartition("/")[0])
        missing = disk.hold(items, tag)
        if not missing:
            return Brought(found=len(items), folder=disk.root)
        with ThreadPoolExecutor(min(STREAMS, len(missing))) as pool:
            sizes = list(pool.map(lambda item: size_of(item.source), missing))
            disk.make_room({item.key: size for item, size in zip(missing, sizes, strict=True)}, tag)
            wide = {item.key for item, size in zip(missing, sizes, strict=True) if _is_wide(item, size)}
            copied = [_copy(disk, item, check, pool) for item in missing if item.key in wide]
            small = [item for item in missing if item.key not in wide]
            copied += pool.map(lambda item: _copy(disk, item, check, None), small)
    except OSError as error:
        if error.errno in _FULL or str(error.filename or "").startswith(disk.root):
            raise StagingError(f"{disk.root}: {error.strerror}") from error
        raise
    made = [size for size in copied if size is not None]
    seconds = round(time.monotonic() - began, 6)
    return Brought(len(made), sum(made), len(items) - len(made), seconds, disk.root)


def _is_wide(item: Item, size: int) -> bool:
    """Whether one artifact alone gives all streams something to do."""
    return size >= 2 * PART or os.path.isdir(item.source)


def size_of(path: str) -> int:
    """Bytes of a file, or of all files of a directory."""
    if not os.path.isdir(path):
        return os.stat(path).st_size
    return sum(
        os.stat(file).st_size
        for folder, _, names in walk(path)
        for file in (os.path.join(folder, name) for name in names)
        if os.path.isfile(file)
    )


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk`, but a directory that cannot be read is no empty one. Raises OSError."""

    def refuse(error: OSError) -> None:
        raise error

    return os.walk(path, onerror=refuse)


def _copy(disk: Disk, item: Item, check: Check, pool: ThreadPoolExecutor | None) -> int | None:
    """Copies one artifact; its bytes, or None where another process did.

    With a pool, the files of a directory and the parts of a large file go side by side.
    """
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
    """Makes the directories of a tree, and returns its files with their places: no pipes, no sockets.

    Raises OSError.
    """
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


def copy_file(
    source: str, target: str, check: Check, pool: ThreadPoolExecutor | None = None, *, shared: bool = True
) -> int:
    """Copies a file and returns its bytes; nobody may write one that all tasks of a node share."""
    told = os.stat(source)
    parts = [(start, min(PART, told.st_size - start)) for start in range(0, told.st_size, PART)]
    with open(target, "wb") as file:
        os.truncate(file.fileno(), told.st_size)
    if pool is None or len(parts) < 2:
        copy_part(source, target, 0, told.st_size, check)
    else:
        for part in [pool.submit(copy_part, source, target, *part, check) for part in parts]:
            part.result()
    os.chmod(target, told.st_mode & 0o555 | 0o400 if shared else told.st_mode & 0o777)
    return told.st_size


def copy_part(source: str, target: str, start: int, length: int, check: Check) -> None:
    """Copies bytes from one file to the same place in another, in the kernel where it can.

    Raises OSError where the source ends before that.
    """
    read = os.open(source, os.O_RDONLY)
    write = os.open(target, os.O_WRONLY)
    try:
        os.lseek(write, start, os.SEEK_SET)
        send = _by_range
        end = start + length
        while start < end:
            check()
            try:
                count = send(read, write, start, min(STEP, end - start))
            except OSError as error:
                after = {_by_range: _by_sendfile, _by_sendfile: _by_hand}.get(send)
                if error.errno not in _NOT_HERE or after is None:
                    raise
                send = after
                continue
            if not count:
                raise OSError(errno.ESTALE, "shorter than it was", source)
            start += count
    finally:
        os.close(read)
        os.close(write)


def _by_range(read: int, write: int, start: int, count: int) -> int:
    return os.copy_file_range(read, write, count, start, start)


def _by_sendfile(read: int, write: int, start: int, count: int) -> int:
    os.lseek(write, start, os.SEEK_SET)
    return os.sendfile(write, read, start, count)


def _by_hand(read: int, write: int, start: int, count: int) -> int:
    return os.pwrite(write, os.pread(read, count, start), start)
