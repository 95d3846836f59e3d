"""Whether a program was killed from outside, as far as its exit code and its launcher tell.

A program does not send itself SIGKILL or SIGTERM by mistake: somebody else ended it. A shell hands on how the
program ended that it waited for, as 128 and the signal. MPI launchers end other ranks by signals too, so that
they tell less: MPICH's mpiexec (5.0) joins signals bit by bit, and SIGABRT with SIGKILL makes SIGTERM; srun
reports the highest code, though it names each rank (docs/decisions/031).
"""

from __future__ import annotations

import re
import signal

_BY_LAUNCHER = re.compile(r"KILLED BY SIGNAL: 9\b|signal 9\b|: Killed\b")
_BANNER = re.compile(r"^YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\n", re.MULTILINE)
_OTHERWISE = re.compile(r"^srun: error: .*: tasks? [0-9,-]+: (?!Killed|Terminated)", re.MULTILINE)


def killer_of(exit_code: int | None, stderr: str, *, launched: bool) -> signal.Signals | None:
    """The signal from outside that ended a program; None where it ended by itself.

    `launched` says whether an MPI launcher stands between, which tells in words what killed a rank.
    """
    if launched:
        killed = exit_code == 128 + signal.SIGKILL or _BY_LAUNCHER.search(stderr)
        return signal.SIGKILL if killed and not _OTHERWISE.search(stderr) else None
    for number in (signal.SIGKILL, signal.SIGTERM):
        if exit_code == 128 + number:
            return number
    return None


def told_by_mpiexec(stdout: str) -> str:
    """What MPICH's mpiexec says of a rank that a signal ended, on the standard output of its program."""
    return "".join(_BANNER.findall(stdout))
