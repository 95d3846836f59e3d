"""Processes end with whatever escaped from them, and what ended others is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.site.scheduler import scheduler_named
from diel.worker.attempt.reaper import (
    LEAST,
    OomKills,
    end_marked,
    is_full,
    kill_children,
    kill_marked,
    killer_of,
    marked,
    message_of_mpiexec,
    signal_group,
)
from tests.descendants import gone

MARK = "DIEL_TASK_DIR"
TASKS = f"/tasks-{os.getpid()}"
"""Of this process alone: other tests may run beside."""
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
)
Children = list[subprocess.Popen[bytes]]


@pytest.fixture
def children() -> Iterator[Children]:
    made: Children = []
    yield made
    for child in made:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def sleeper(children: Children, value: str, *words: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        words or ("sleep", "600"), env={**os.environ, MARK: value}, start_new_session=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    children.append(child)
    return child


def ended(child: subprocess.Popen[bytes]) -> bool:
    return child.poll() is not None


def test_marked_processes_end_and_others_go_on(children: Children) -> None:
    mine = [sleeper(children, f"{TASKS}/1") for _ in range(2)]
    others = [sleeper(children, value) for value in (f"{TASKS}/10", TASKS, "")]
    assert {p.pid for p in marked(MARK, f"{TASKS}/1")} == {child.pid for child in mine}
    assert end_marked(MARK, f"{TASKS}/1") == 2
    assert all(ended(child) for child in mine)
    assert not any(ended(child) for child in others)
    assert end_marked(MARK, f"{TASKS}/1") == 0


def test_one_that_ignores_the_request_is_killed(children: Children) -> None:
    child = sleeper(children, f"{TASKS}/1", sys.executable, "-c", DEAF)
    assert child.stdout is not None
    child.stdout.readline()
    began = time.monotonic()
    end_marked(MARK, f"{TASKS}/1", grace=0.3)
    assert child.wait(60) == -signal.SIGKILL
    assert time.monotonic() - began < 60


def test_one_that_has_stopped_is_killed_too(children: Children) -> None:
    child = sleeper(children, f"{TASKS}/1")
    child.send_signal(signal.SIGSTOP)
    assert kill_marked(MARK, f"{TASKS}/1") == 1
    assert child.wait(60) == -signal.SIGKILL


def test_the_caller_and_its_ancestors_are_spared(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os\nfrom diel.worker.attempt.reaper import kill_marked\n"
        f"kill_marked({MARK!r}, '/tasks/1')\nprint(os.getppid())"
    )
    script = f'{sys.executable} -c "{code}"; echo still here'
    child = sleeper(children, f"{TASKS}/1", "/bin/sh", "-c", script.replace("\n", "\n"))
    out, _ = child.communicate(timeout=60)
    assert out.decode().split("\n")[1] == "still here"


def test_a_group_that_is_gone_is_no_error() -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    child.wait()
    signal_group(child.pid, signal.SIGKILL)


def test_all_descendants_of_this_process_end() -> None:
    code = (
        "import subprocess, psutil\nfrom diel.worker.attempt.reaper import kill_children\n"
        "children = [subprocess.Popen(['sh', '-c', 'sleep 600 & sleep 600']) for _ in range(2)]\n"
        "import time\n"
        "while len(psutil.Process().children(recursive=True)) < 6: time.sleep(0.01)\n"
        "pids = [p.pid for p in psutil.Process().children(recursive=True)]\n"
        "kill_children()\n"
        "[child.wait() for child in children]\n"
        "print(*pids)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) >= 4
    assert all(map(gone, pids))
    assert callable(kill_children)


@pytest.mark.parametrize(("blocks", "full"), [(0, True), (LEAST // 4096 - 1, True), (LEAST // 4096, False)])
def test_a_file_system_with_next_to_nothing_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, full: bool
) -> None:
    assert not is_full(str(tmp_path))
    found = list(os.statvfs(tmp_path))
    found[0:2], found[4] = [4096, 4096], blocks  # f_bsize, f_frsize, f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(found))
    assert is_full(str(tmp_path)) is full


def test_a_folder_that_is_gone_says_nothing(tmp_path: Path) -> None:
    assert not is_full(str(tmp_path / "gone"))


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
    assert message_of_mpiexec(f"lost signal 9\nTask 3: Killed\n{banner}see the FAQ\n") == banner


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
