"""A program that was killed from outside is told from one that ended by itself."""

from __future__ import annotations

import signal

import pytest

from diel.worker.killed import killer_of, told_by_mpiexec

SRUN = "srun: error: n1: task 1: {}\nsrun: error: n1: task 0: Killed\n"
HYDRA = "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {}\n"


@pytest.mark.parametrize(
    ("code", "stderr", "launched", "killer"),
    [
        (137, "", False, signal.SIGKILL),
        (143, "", False, signal.SIGTERM),
        (139, "", False, None),
        (9, "killed (signal 9)", False, None),
        (None, "", False, None),
        (137, "srun: error: n1: tasks 0-1: Killed\n", True, signal.SIGKILL),
        (9, HYDRA.format("Killed (signal 9)"), True, signal.SIGKILL),
        (9, "", True, None),
        (15, HYDRA.format("Terminated (signal 15)"), True, None),
        (137, SRUN.format("Exited with exit code 3"), True, None),
        (137, SRUN.format("Aborted (core dumped)"), True, None),
        (137, SRUN.format("Killed"), True, signal.SIGKILL),
    ],
)
def test_who_ended_a_program(code: int | None, stderr: str, launched: bool, killer: int | None) -> None:
    assert killer_of(code, stderr, launched=launched) == killer


def test_what_a_program_prints_of_signals_is_not_its_launchers_word() -> None:
    banner = HYDRA.format("Killed (signal 9)")
    assert told_by_mpiexec(f"lost signal 9\nTask 3: Killed\n{banner}see the FAQ\n") == banner
