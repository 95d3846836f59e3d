"""The line between a worker and its controller."""

from __future__ import annotations

import fcntl
import os
import resource

import pytest

from diel.worker.attempt.ipc import is_readable


def test_a_process_with_many_files_hears_of_its_workers_too() -> None:
    """A notebook, say: `select` takes no number above 1023."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2000:
        pytest.skip("this machine lets a process have fewer than 2,000 files")
    there, end = os.pipe()
    far = fcntl.fcntl(there, fcntl.F_DUPFD_CLOEXEC, 1500)
    try:
        assert not is_readable(far)
        os.write(end, b"1")
        assert is_readable(far)
    finally:
        for number in (there, end, far):
            os.close(number)
