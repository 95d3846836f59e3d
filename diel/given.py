"""Files that a user names: looked at before they are opened, so that no pipe or device is waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def flaw_of(path: str | Path) -> str:
    """Why a file or directory cannot be read; empty where it can."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            os.scandir(path).close()
            return ""
        if not stat.S_ISREG(status.st_mode):
            return f"is {_sort(status.st_mode)}, no ordinary file"
        if status.st_size == 0 or not os.access(path, os.R_OK):
            read_file(path, 0)
    except FileNotFoundError:
        return "is not there"
    except (OSError, ValueError) as error:
        return f"cannot be read: {reason(error)}"
    return ""


def read_file(path: str | Path, most: int) -> bytes:
    """The bytes of an ordinary file, at most one more than `most`. Raises OSError, and for a NUL ValueError.

    A file of /proc says that it is empty and gives what it likes, or waits: it is no ordinary one.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, f"it is {_sort(status.st_mode)}, no ordinary file")
        if status.st_size == 0 and _says_something(number):
            raise OSError(0, "it is no ordinary file, but the system's own")
        with open(number, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(number)


def reason(error: OSError | ValueError) -> str:
    """What the system says of a file that cannot be read, in lower case."""
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return told[:1].lower() + told[1:]


def _says_something(number: int) -> bool:
    try:
        return bool(os.read(number, 1))
    except BlockingIOError:
        return True


def _sort(mode: int) -> str:
    sorts = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return sorts.get(stat.S_IFMT(mode), "something else")
