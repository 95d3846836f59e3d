"""Digests: what tells versions of a file apart, and keys of JSON values.

Files are hashed with XXH3 at 128 bits, which is quicker than any disk (docs/decisions/021); keys,
which must not collide even where somebody wants them to, with BLAKE2b.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import xxhash

Way = Literal["content", "stat"]
"""By content, or by size, time of the last change and inode, without reading."""
CHUNK = 1024 * 1024
"""Bytes that are hashed at a time: few enough to be in the processor's cache still when they are written."""


def content(path: str | Path, way: Way = "content") -> tuple[int, str]:
    """Size in bytes and digest of a file, or of a directory's files and their names."""
    if not os.path.isdir(path):
        return file_content(path, way)
    size, digest = 0, xxhash.xxh3_128()
    for name in files_below(path):
        length, inner = file_content(os.path.join(path, name), way)
        size += length
        digest.update(f"{name}\0{inner}\0".encode("utf-8", "surrogateescape"))
    return size, digest.hexdigest() if way == "content" else f"stat-{digest.hexdigest()}"


def file_content(path: str | Path, way: Way = "content") -> tuple[int, str]:
    """Size in bytes and digest of a file."""
    if way == "stat":
        status = os.stat(path)
        return status.st_size, f"stat-{status.st_size}-{status.st_mtime_ns:x}-{status.st_ino:x}"
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        if size < CHUNK:
            data = os.read(file, size + 1)
            if len(data) == size:
                return size, xxhash.xxh3_128_hexdigest(data)
            os.lseek(file, 0, os.SEEK_SET)  # it changes while it is read
        return _hash_to_end(file)
    finally:
        os.close(file)


def _hash_to_end(file: int) -> tuple[int, str]:
    digest, size = xxhash.xxh3_128(), 0
    buffer = memoryview(bytearray(CHUNK))
    while length := os.readv(file, [buffer]):
        digest.update(buffer[:length])
        size += length
    return size, digest.hexdigest()


def files_below(directory: str | Path) -> list[str]:
    """The files of a directory and of those in it, relative to it and sorted by their parts.

    Links to directories, and links that lead nowhere, are left out.
    """
    found: list[str] = []
    todo = [""]
    while todo:
        prefix = todo.pop()
        with os.scandir(os.path.join(directory, prefix)) as entries:
            for entry in entries:
                if entry.is_symlink():
                    if os.path.isfile(entry.path):
                        found.append(prefix + entry.name)
                elif entry.is_dir():
                    todo.append(f"{prefix}{entry.name}/")
                elif entry.is_file():
                    found.append(prefix + entry.name)
    return sorted(found, key=lambda name: name.split("/"))


def digest_of(parts: Iterable[Any]) -> str:
    """The digest of JSON values: the same for the same values, whatever the order of keys."""
    text = json.dumps(list(parts), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
