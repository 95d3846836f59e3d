"""What counts a rank of a task stands between it and its launcher, and neither notices."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.throwaway import wait_for

COUNTER = Path(__file__).parents[2] / "diel" / "worker" / "usage.py"


def counted(folder: Path, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-IS", str(COUNTER), str(folder), "--launch=7", *words)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(counted(folder, *words), cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 75", 75), ("kill -9 $$", -9), ("kill -SEGV $$", -11), ("kill -TERM $$", -15)],
)
def test_it_ends_as_the_rank_did(tmp_path: Path, script: str, code: int) -> None:
    assert run(tmp_path, "sh", "-c", script).returncode == code
    (said,) = tmp_path.glob("7.*")
    cpu, system, memory, read, written = map(float, said.read_text().split())
    assert cpu >= system >= 0
    assert memory > 1 << 20
    assert read > written == 0


def test_signals_are_passed_on(tmp_path: Path) -> None:
    words = counted(
        tmp_path, "sh", "-c", 'trap "echo saved; exit 75" TERM; touch up; while :; do sleep 0.02; done'
    )
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as rank:
        wait_for((tmp_path / "up").exists)
        rank.send_signal(signal.SIGTERM)
        assert rank.communicate(timeout=10)[0] == "saved\n"
    assert rank.returncode == 75


def test_a_rank_gets_signals_as_its_launcher_has_them(tmp_path: Path) -> None:
    """Python ignores two, which would stay ignored; glibc ignores two of its own, with numbers above 31."""
    said = run(tmp_path, "grep", "SigIgn", "/proc/self/status").stdout
    assert int(said.split()[1], 16) & 0x7FFFFFFF == 0


def test_a_script_without_its_shell_runs_and_a_missing_program_is_told(tmp_path: Path) -> None:
    script = tmp_path / "rank"
    script.write_text("echo here\n")
    script.chmod(0o755)
    assert run(tmp_path, "./rank").stdout == "here\n"
    gone = run(tmp_path, "no-such-program-here")
    assert (gone.returncode, gone.stderr) == (127, "no-such-program-here: No such file or directory\n")


SHARING = """
import mmap, os, time
taken = mmap.mmap(-1, 60 << 20)
for _ in range(60):
    taken.write(bytes(1 << 20))
if not os.fork():
    sum(taken[:: mmap.PAGESIZE])
    time.sleep(0.4)
    os._exit(0)
os.wait()
"""


def test_memory_that_ranks_share_counts_for_each_in_part(tmp_path: Path) -> None:
    run(tmp_path, sys.executable, "-c", SHARING)
    (said,) = tmp_path.glob("7.*")
    assert 30 << 20 < float(said.read_text().split()[2]) < 55 << 20
