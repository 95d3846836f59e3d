"""Putting a file in its place whole: whoever reads it sees all of the old one or all of the new one.

All that diel writes for others to read goes through here. What is killed while it writes leaves a hidden
file that ends in `.part`; nobody reads that, and the run's controller removes it. Nothing is forced to
the disk: as for the journal, a kill is survived and a loss of power is not promised to be (decision 033).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

NAME = 40
"""Characters of a file's name that its unfinished copy shows: a name may have 255 bytes."""
LONGEST = 10.0
"""Seconds without a byte written after which whoever wrote an unfinished copy counts as killed."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` at the end of the block, or never where the block raises.

    Several processes, on several hosts too, may do this at once: the last one wins. Raises OSError, which
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


def put(path: str | os.PathLike[str], content: str | bytes, mode: int = 0o666) -> None:
    """Puts a file in place in one step; a text as UTF-8. Raises OSError, which names `path`."""
    with replacing(path, mode) as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))


def sweep(folders: Iterable[Path], before: float) -> None:
    """Removes from these folders, not from those below, what is unfinished and was not written to since.

    `before` is that time: seconds since the epoch, by the clock that stamps the files.
    """
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") and entry.name.endswith(".part"):
                    with contextlib.suppress(OSError):  # its writer, or another one who sweeps, was faster
                        if entry.stat().st_mtime < before:
                            os.unlink(entry)
