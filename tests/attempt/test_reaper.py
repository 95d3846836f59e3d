"""Processes end with what they belong to, wherever they hide, and no others do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from diel.attempt.reaper import end_marked, kill_children, kill_marked, marked, signal_group

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


def gone(child: subprocess.Popen[bytes]) -> bool:
    return child.poll() is not None


def test_marked_processes_end_and_others_go_on(children: Children) -> None:
    mine = [sleeper(children, f"{TASKS}/1") for _ in range(2)]
    others = [sleeper(children, value) for value in (f"{TASKS}/10", TASKS, "")]
    assert {p.pid for p in marked(MARK, f"{TASKS}/1")} == {child.pid for child in mine}
    assert end_marked(MARK, f"{TASKS}/1") == 2
    assert all(gone(child) for child in mine)
    assert not any(gone(child) for child in others)
    assert end_marked(MARK, f"{TASKS}/1") == 0


def test_one_that_ignores_the_request_is_killed(children: Children) -> None:
    child = sleeper(children, f"{TASKS}/1", sys.executable, "-c", DEAF)
    assert child.stdout is not None
    child.stdout.readline()
    began = time.monotonic()
    end_marked(MARK, f"{TASKS}/1", grace=0.3)
    assert child.wait(5) == -signal.SIGKILL
    assert time.monotonic() - began < 3


def test_one_that_has_stopped_is_killed_too(children: Children) -> None:
    child = sleeper(children, f"{TASKS}/1")
    child.send_signal(signal.SIGSTOP)
    assert kill_marked(MARK, f"{TASKS}/1") == 1
    assert child.wait(5) == -signal.SIGKILL


def test_the_caller_and_its_ancestors_are_spared(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os\nfrom diel.attempt.reaper import kill_marked\n"
        f"kill_marked({MARK!r}, '/tasks/1')\nprint(os.getppid())"
    )
    script = f'{sys.executable} -c "{code}"; echo still here'
    child = sleeper(children, f"{TASKS}/1", "/bin/sh", "-c", script.replace("\n", "\n"))
    out, _ = child.communicate(timeout=20)
    assert out.decode().split("\n")[1] == "still here"


def test_a_group_that_is_gone_is_no_error() -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    child.wait()
    signal_group(child.pid, signal.SIGKILL)


def test_all_descendants_of_this_process_end() -> None:
    code = (
        "import subprocess, psutil\nfrom diel.attempt.reaper import kill_children\n"
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
    assert not any(psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE for p in pids)
    assert callable(kill_children)
