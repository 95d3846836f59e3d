"""Copies files within the kernel, which shares their blocks where the file system can.

A copy can be ended between two steps, and a large file be copied in several parts at once.
"""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

PART = 64 * 1024 * 1024
"""Bytes of a part; a file with more is copied in several at once."""
STEP = 8 * 1024 * 1024
"""Bytes of one call; between two calls it checks whether the task was stopped."""
_NOT_HERE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)

Check = Callable[[], None]
"""Called between two pieces of work; raises if the work must end."""


def no_check() -> None:
    """Nothing ends the work."""


def copy_file(
    source: str, target: str, check: Check, pool: ThreadPoolExecutor | None = None, *, shared: bool = True
) -> int:
    """Copy a file and return its bytes; a file that all tasks of a node share becomes read-only."""
    status = os.stat(source)
    size, mode = status.st_size, status.st_mode
    parts = [(start, min(PART, size - start)) for start in range(0, size, PART)]
    with open(target, "wb") as file:
        os.truncate(file.fileno(), size)
    if pool is None or len(parts) < 2:
        copy_part(source, target, 0, size, check)
    else:
        for part in [pool.submit(copy_part, source, target, *part, check) for part in parts]:
            part.result()
    os.chmod(target, mode & 0o555 | 0o400 if shared else mode & 0o777)
    return size


def copy_part(source: str, target: str, start: int, length: int, check: Check) -> None:
    """Copy bytes from one file to the same place in another, in the kernel where it can.

    Raise OSError where the source ends before that.
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
