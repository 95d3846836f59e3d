"""Large items in files: written once by their producer, mapped by their consumers, never through the broker.

Each producer appends to files of its own. An item begins at a page, so that a consumer maps it alone: what a
consumer holds stays valid when the file is removed, and goes when the item goes.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from diel.errors import StreamError
from diel.streams.item import Buffer

LARGE = 64 * 1024
"""Bytes from which an item goes into a file: below, the broker is as fast (docs/decisions/022)."""
ROLL = 64 * 1024 * 1024
"""Bytes after which another file is begun: what is spent goes, and its memory is used again."""
_PAGE = max(4096, mmap.ALLOCATIONGRANULARITY)
_AHEAD = 64 * 1024 * 1024
"""Bytes that are asked of the file system at once, at most."""
_FAST = ("ext4", "xfs", "btrfs", "overlay")
"""File systems that give room without writing to it: an array is then written several times as fast."""


class SegmentWriter:
    """The files of one producer in `folder`, which lies below `root`, the run's `streams` directory."""

    def __init__(self, root: Path, folder: str) -> None:
        self._root = root
        self._stem = f"{folder}/items-{secrets.token_hex(6)}"
        self._number = self._end = self._room = 0
        self._file = -1
        self._name = ""
        self._forced = self._fast = False

    def append(self, parts: Sequence[Buffer], size: int) -> tuple[bytes, str]:
        """Writes an item; returns what stands for it in the stream, and the file's name."""
        if self._file < 0 or self._end >= ROLL:
            self._roll()
        offset = self._end
        if self._fast and offset + size > self._room:
            self._ask_for_room(offset + size)
        _write_all(self._file, parts, offset, size)
        if self._forced:  # on NFS another node sees only what was forced out
            os.fsync(self._file)
        self._end = -(-(offset + size) // _PAGE) * _PAGE
        reference = {"file": self._name, "offset": offset, "size": size}
        return b"r" + json.dumps(reference, separators=(",", ":")).encode(), self._name

    def _roll(self) -> None:
        self.close()
        self._number += 1
        self._name = f"{self._stem}-{self._number}.bin"
        path = self._root / self._name
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StreamError(f"{path}: cannot be written: {error.strerror}") from error
        kind = kind_of_file_system(path)
        self._forced, self._fast = kind.startswith("nfs"), kind in _FAST
        self._end = self._room = 0

    def _ask_for_room(self, end: int) -> None:
        more = max(end, min(2 * end, end + _AHEAD))  # so that a producer of few items takes little
        try:
            os.posix_fallocate(self._file, self._room, more - self._room)
        except OSError:
            self._fast = False  # whoever writes reports a full disk
        self._room = more

    def close(self) -> None:
        if self._file >= 0:
            if self._room > self._end:
                os.ftruncate(self._file, self._end)
            os.close(self._file)
            self._file = -1


def _write_all(file: int, parts: Sequence[Buffer], offset: int, size: int) -> None:
    try:
        written = os.pwritev(file, parts, offset)
        if written < size:  # one call writes 2 GiB at most, and less where the disk fills up
            rest = memoryview(b"".join(parts))
            while written < size:
                written += os.pwrite(file, rest[written:], offset + written)
    except OSError as error:
        raise StreamError(f"a large item cannot be written: {error.strerror}") from error


def kind_of_file_system(path: Path) -> str:
    """Its name as the system has it: that of the innermost mount point; of several there, the last counts."""
    mounts = [one for one in psutil.disk_partitions(all=True) if path.is_relative_to(one.mountpoint)]
    kinds = {len(one.mountpoint): one.fstype for one in mounts}
    return kinds[max(kinds)] if kinds else ""


def mapped(root: Path, reference: Buffer) -> memoryview:
    """The bytes of an item that stands in a file, mapped read-only: nothing is copied.

    Raises StreamError where the file is gone or shorter than it should be.
    """
    place: dict[str, Any] = json.loads(bytes(reference[1:]))
    name, offset, size = str(place["file"]), int(place["offset"]), int(place["size"])
    if name.startswith("/") or ".." in name.split("/"):
        raise StreamError(f"an item of a stream points outside the run: {name}")
    try:
        file = os.open(root / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return memoryview(mmap.mmap(file, size, prot=mmap.PROT_READ, offset=offset))
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        raise StreamError(
            f"{root / name}: an item of a stream should stand there ({size} bytes at {offset}): {error}"
        ) from error
