"""Files that a function keeps open for writing: what it wrote may still be in buffers, or change."""

from __future__ import annotations

import fcntl
import gc
import io
import os
from collections.abc import Mapping, Set
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from diel.errors import ModuleError

_HERE = "/proc/self/fd"
_BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
_ARCHIVES = {"zipfile", "gzip", "bz2", "lzma", "tarfile"}


def held_files(task_dir: Path, run_dir: Path) -> Set[str]:
    """Return the files of a task that this process has open for writing, relative to its run.

    What nothing refers to any more is closed first, so that it is complete.
    """
    below, run = os.fspath(task_dir), os.fspath(run_dir)
    with suppress(FileNotFoundError), os.scandir(below) as entries:  # a function may remove its directory
        if next(entries, None) is None:  # as a function does that returns values
            return frozenset()
    if below.startswith(run):
        below, run = _real(run) + below[len(run) :], _real(run)
    if not (held := _open_below(below)):
        return frozenset()
    _close_garbage({*held})
    return {os.path.relpath(file, run) for file in _open_below(below).values()}


def _close_garbage(numbers: Set[int]) -> None:
    """Write out what these files have in buffers, and close those in cycles that nothing refers to.

    Python closes what is in a cycle in any order: a text is lost that was not written out before, and an
    archive gets no end, so none is closed.
    """
    files = gc.get_objects()
    if any(type(file).__module__ in _ARCHIVES for file in files):
        return
    for file in files:
        with suppress(OSError, ValueError):  # closed, or no file at all
            if issubclass(type(file), _BUFFERED) and file.fileno() in numbers:
                file.flush()
    del files
    gc.collect()


@cache
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _open_below(folder: str) -> dict[int, str]:
    start, found = f"{folder}/", {}
    for number in os.listdir(_HERE):
        with suppress(OSError):  # the list itself is closed by now
            file = os.readlink(f"{_HERE}/{number}")
            if file.startswith(start) and fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_ACCMODE:
                found[int(number)] = file
    return found


def check_closed(held: Set[str], artifacts: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ModuleError where an artifact is one of these files, or has one in it."""
    if not held:
        return
    for record in artifacts.values():
        paths = [file["path"] for file in record.get("files", (record,))]
        for file in sorted(held):
            if any(file == path or file.startswith(f"{path}/") for path in paths):
                name = os.path.basename(file)
                raise ModuleError(f"`{name}` is still open: close it, or write it in a `with`")
