"""A SIGKILL of unknown origin is put down to memory where something says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from diel.attempt.memory import Meter
from diel.scheduler import scheduler_named
from diel.worker.oom import OomKills

SLURM = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed.\n"


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    path = tmp_path / "memory.events"
    path.write_text("low 0\nhigh 3\nmax 9\noom 2\noom_kill 2\n")
    return path


def test_a_kill_counts_from_the_mark_on(counter: Path) -> None:
    kills = OomKills((counter,))
    assert not kills.grew()
    counter.write_text("low 0\noom_kill 3\n")
    assert kills.grew()
    kills.mark()
    assert not kills.grew()


@pytest.mark.parametrize(
    ("code", "stderr", "launched", "grew", "told"),
    [
        (137, "", False, True, "the system killed"),
        (137, "", False, False, ""),
        (1, "", False, True, ""),
        (None, "", False, True, ""),
        (137, SLURM, False, False, "its standard error"),
        (1, SLURM, False, False, ""),
        (1, SLURM, True, False, "Detected 1 oom_kill event"),
        (9, "=   EXIT STRING: Killed (signal 9)\n", True, True, "the system killed"),
        (9, "=   EXIT STRING: Killed (signal 9)\n", True, False, ""),
        (1, "torch.OutOfMemoryError: CUDA out of memory", True, True, ""),
    ],
)
def test_evidence_takes_a_kill_and_a_reason(
    counter: Path, code: int | None, stderr: str, launched: bool, grew: bool, told: str
) -> None:
    kills = OomKills((counter,))
    if grew:
        counter.write_text("oom_kill 3\n")
    evidence = kills.evidence(code, stderr, launched=launched, words=scheduler_named("slurm").oom)
    assert told in evidence
    assert bool(evidence) == bool(told)


def test_a_counter_that_goes_away_is_no_kill(counter: Path) -> None:
    kills = OomKills((counter,))
    counter.unlink()
    assert not kills.grew()


def test_this_machine_has_a_counter() -> None:
    assert not OomKills().grew()
    assert OomKills()._files


def test_a_process_is_measured_with_its_descendants() -> None:
    text = "import subprocess, sys; x = bytearray(60 * 2**20); print(flush=True); input()"
    outer = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {text!r}], stdin=sys.stdin); p.wait()"
    words = [sys.executable, "-c", outer]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 60 * 2**20 < Meter().exceeds(process.pid, 50 * 2**20) < 150 * 2**20
        assert Meter().exceeds(process.pid, 200 * 2**20) == 0
        process.communicate(b"\n")
    assert Meter().exceeds(process.pid, 1) == 0


def test_pages_that_processes_share_count_once() -> None:
    data = bytearray(80 * 2**20)
    alone = Meter().exceeds(os.getpid(), 1)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
    try:
        used = Meter().exceeds(os.getpid(), 1)
        assert alone / 2 < used < 2 * alone  # all of it is resident in each of the four
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert len(data) == 80 * 2**20
