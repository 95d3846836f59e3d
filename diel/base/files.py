"""Files: diel replaces its own in one step, and checks those that a user names before it opens them.

Whoever reads a file that diel writes for others sees all of the old one or all of the new one. What is
killed while it writes leaves a hidden file that ends in `.part`; nobody reads that, and the run's controller
removes it. Nothing is forced to the disk: as for the journal, a kill is survived and a loss of power is not
promised to be (decision 033). A user's file may be a pipe or a device, which nothing must wait for.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

NAME = 40
"""Characters of a file's name that its unfinished copy keeps: a name has at most 255 bytes."""
LONGEST = 10.0
"""After this many seconds without a write, the writer of an unfinished copy counts as killed."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` at the end of the block, unless the block raises.

    Several processes, on several hosts too, may do this at once: the last one wins. Raise OSError, which
    names `path`, where it cannot be written.
    """
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name[:NAME]}.{os.urandom(6).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(part, flags, mode), "wb") as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        if error.filename not in (None, part):
            raise  # the block's own
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def resolved(path: str) -> str:
    """Return a place for a file, or a directory, by no links: what is put there replaces a link to a file."""
    folder, name = os.path.split(path)
    return os.path.realpath(path) if os.path.isdir(path) else os.path.join(os.path.realpath(folder), name)


def is_own(status: os.stat_result, *, bits: int = 0) -> bool:
    """Return whether only this user, or root, can write into a directory; `bits` are the bits of its
    mode that must not be set.
    """
    return stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.getuid()) and not status.st_mode & bits


@contextlib.contextmanager
def filling(folder: Path, last: str) -> Iterator[Path]:
    """Yield an empty directory that becomes `folder` at the end of the block, unless the block raises.

    If `folder` is there, what is in the new one is put into it, the entry `last` after all others.
    Raise OSError, which names what is in the way, or `folder` where it cannot be made.
    """
    part = folder.parent / f".{folder.name[:NAME]}.{os.urandom(6).hex()}.part"
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(folder))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir()
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            raise  # it names what is in the way
        raise OSError(error.errno, error.strerror, os.fspath(folder)) from error
    try:
        yield part
        if not folder.exists():
            part.rename(folder)
            return
        paths = sorted(part.iterdir(), key=lambda path: path.name == last)
        for path in paths:
            if (folder / path.name).exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(folder / path.name))
        for path in paths:
            path.rename(folder / path.name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def put(path: str | os.PathLike[str], content: str | bytes, mode: int = 0o666) -> None:
    """Put a file in place in one step; text as UTF-8. Raise OSError, which names `path`."""
    with replacing(path, mode) as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))


def sweep(folders: Iterable[Path], before: float) -> None:
    """Remove from these folders, but not those below, unfinished copies whose writers were killed.

    `before` is that time: seconds since the epoch, by the clock that stamps the files.
    """
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") and entry.name.endswith(".part"):
                    with contextlib.suppress(OSError):  # its writer, or another one who sweeps, was faster
                        if entry.stat().st_mtime < before:
                            os.unlink(entry)


def flaw_of(path: str | Path) -> str:
    """Say why a file or directory cannot be read; empty where it can."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            os.scandir(path).close()
            return ""
        if not stat.S_ISREG(status.st_mode):
            return f"is {_sort(status.st_mode)}, not an ordinary file"
        if status.st_size == 0 or not os.access(path, os.R_OK):
            read_file(path, 0)
    except FileNotFoundError:
        return "is not there"
    except (OSError, ValueError) as error:
        return f"cannot be read: {reason(error)}"
    return ""


def read_file(path: str | Path, most: int) -> bytes:
    """Return an ordinary file's bytes, at most one more than `most`. Raise OSError, and for a NUL ValueError.

    A file of /proc says that it is empty and gives what it likes, or waits: it is no ordinary one.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, f"it is {_sort(status.st_mode)}, not an ordinary file")
        if status.st_size == 0 and _says_something(number):
            raise OSError(0, "it is a special file of the system")
        with open(number, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(number)


def reason(error: OSError | ValueError) -> str:
    """Return the system's words for a file that cannot be read, in lower case."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:]


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
