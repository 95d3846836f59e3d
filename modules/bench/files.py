"""How fast the file system of the runs is: a large file written and read, small ones made and removed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypedDict

import diel

if TYPE_CHECKING:  # diel reads annotations as text
    from pydantic import Field

BLOCK = 2**20
"""Bytes of a read or write."""


class Files(TypedDict):
    """What was measured."""

    write_mbs: float
    """10⁶ bytes a second written, until the file system says that they are on the disk (fsync)."""
    read_mbs: float
    """10⁶ bytes a second read, after the kernel was asked to forget them; a server may still have them."""
    create_rate: float
    """Files a second that are made, each with four bytes."""
    stat_rate: float
    """Files a second whose size is asked for."""
    remove_rate: float
    """Files a second that are removed."""


@diel.module(kind="analysis")
def files(
    context: diel.Context,
    size: Annotated[int, Field(ge=1, le=2**44)] = 2**28,
    count: Annotated[int, Field(ge=1, le=10**7)] = 1000,
) -> Files:
    """Write, reads and removes files in the task's directory, and leaves none.

    size: bytes of the large file; more than a client's cache holds gives the servers' figure
    count: how many small files; metadata servers of parallel file systems are slow at these
    """
    folder = context.task_dir / "bench-files"
    folder.mkdir()
    large = folder / "large"
    wrote, read = _write(str(large), size), _read(str(large), size)
    large.unlink()
    names = [f"{folder}/{number}" for number in range(count)]
    created = _seconds(names, _create)
    stat_seconds = _seconds(names, os.stat)
    removed = _seconds(names, os.unlink)
    folder.rmdir()
    return {
        "write_mbs": size / wrote / 1e6,
        "read_mbs": size / read / 1e6,
        "create_rate": count / created,
        "stat_rate": count / stat_seconds,
        "remove_rate": count / removed,
    }


def _write(path: str, size: int) -> float:
    block = os.urandom(min(BLOCK, size))  # what cannot be compressed
    began = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        remaining = size
        while remaining:
            remaining -= file.write(block[:remaining])
        os.fsync(file.fileno())
    return time.perf_counter() - began


def _read(path: str, size: int) -> float:
    """Raise OSError where the file is not as long as it was written."""
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.perf_counter()
        count = 0
        while chunk := file.read(BLOCK):
            count += len(chunk)
        seconds = time.perf_counter() - began
    if count != size:
        raise OSError(f"{path}: wrote {size} bytes, and read {count}")
    return seconds


def _create(path: str) -> None:
    with open(path, "wb") as file:
        file.write(b"diel")


def _seconds(names: list[str], step: Callable[[str], object]) -> float:
    began = time.perf_counter()
    for name in names:
        step(name)
    return time.perf_counter() - began
