"""The watchdog ends an attempt that must not go on, and tells why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from diel.base.errors import JournalError
from diel.base.paths import RunPaths
from diel.base.states import FailureClass
from diel.store.project.requests import Cancel, ask_cancel
from diel.worker.attempt.block import BlockHere, limits_of
from diel.worker.attempt.bundle import Failure, Work
from diel.worker.attempt.command import spawn
from diel.worker.attempt.watchdog import EXIT_CODE, RunningAttempt, Watchdog, _out_of_time, memory_of
from diel.worker.context import Context
from tests.throwaway import wait_for
from tests.worker.bench import request

WORK = Work("s", None, {}, None, (), 1)
LONG = ("sh", "-c", "trap '' TERM; touch begun; while :; do sleep 0.02; done")


class Watched:
    """A watchdog, and how often it asked for the rest of the bundle to be handed back."""

    def __init__(self, folder: Path) -> None:
        self.paths = RunPaths(folder / "w-1")
        for path in (self.paths.requests, self.paths.tasks):
            path.mkdir(parents=True)
        self.released = 0
        self.dog = Watchdog(self.paths, self._release, lambda _: None)

    def _release(self) -> None:
        self.released += 1

    def run(self, work: Work, words: tuple[str, ...] = LONG) -> RunningAttempt:
        """Runs a program until it is ended; it must not end by itself."""
        attempt = RunningAttempt(work, request(0, *words), str(self.paths.tasks))
        self.dog.begin(attempt)
        with pytest.raises(Failure) as caught:
            spawn(words, {"PATH": os.environ["PATH"], "DIEL_TASK_DIR": attempt.task_dir}, self.dog, attempt)
        assert caught.value is attempt.verdict
        return attempt


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr("diel.worker.attempt.watchdog.GRACE", 0.2)
    monkeypatch.chdir(tmp_path)
    return Watched(tmp_path)


def verdict_of(attempt: RunningAttempt) -> tuple[str, str]:
    assert attempt.verdict is not None
    return attempt.verdict.kind, attempt.verdict.message


def test_a_program_that_ignores_its_timeout_is_killed(watched: Watched) -> None:
    attempt = watched.run(WORK._replace(timeout=0.3))
    assert verdict_of(attempt) == (FailureClass.TIMEOUT, "ran longer than its timeout of 0.3 s")


def test_a_look_that_goes_wrong_is_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may be full as the rest of a bundle is handed back: the timeout of its task holds all the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("diel.worker.attempt.watchdog.RELEASE_AFTER", 0.0)
    watched = Watched(tmp_path)

    def release() -> None:
        raise JournalError("no space left on device")

    watched.dog._release = release
    assert verdict_of(watched.run(WORK._replace(timeout=0.3)))[0] == FailureClass.TIMEOUT


def test_a_function_ends_with_its_worker_where_its_failure_cannot_be_written(tmp_path: Path) -> None:
    text = (
        "import sys, time\nfrom pathlib import Path\n"
        "from diel.worker.attempt.watchdog import RunningAttempt, Watchdog\n"
        "from diel.worker.attempt.bundle import Work\nfrom diel.base.errors import JournalError\n"
        "from diel.base.paths import RunPaths\nfrom tests.worker.bench import request\n"
        "def give_up(_):\n    raise JournalError('no space left on device')\n"
        "dog = Watchdog(RunPaths(Path(sys.argv[1])), lambda: None, give_up)\n"
        "dog.begin(RunningAttempt(Work('s', object(), {}, 0.2, (), 1), request(0), sys.argv[1]))\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", text, str(tmp_path)], check=False, timeout=30, stderr=-3)
    assert done.returncode == EXIT_CODE


def test_a_program_that_takes_more_memory_than_it_may_is_ended(watched: Watched) -> None:
    text = "x = bytearray(60 * 2**20)\nwhile True: pass"
    attempt = watched.run(WORK._replace(memory=50 * 2**20), (sys.executable, "-c", text))
    kind, message = verdict_of(attempt)
    assert kind == FailureClass.OOM
    assert message.endswith("of memory: more than its 50.0 MiB")


def test_a_cancelled_task_ends_and_the_rest_of_its_bundle_is_handed_back(
    watched: Watched, tmp_path: Path
) -> None:
    def cancel() -> None:
        wait_for((tmp_path / "begun").exists)
        ask_cancel(watched.paths, ["s/0"])

    attempt = beside(cancel, lambda: watched.run(WORK))
    assert verdict_of(attempt) == (FailureClass.CANCELLED, "cancelled")
    assert watched.released


def test_a_cancelled_task_is_killed_though_the_requests_cannot_be_read_again(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shared disk answers, and then does not: a command that ignores SIGTERM must not live on."""

    def unreadable(paths: RunPaths) -> list[Cancel]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("diel.worker.attempt.watchdog.read_cancels", unreadable)

    def cancel() -> None:
        wait_for((tmp_path / "begun").exists)
        ask_cancel(watched.paths, ["s/0"])

    assert verdict_of(beside(cancel, lambda: watched.run(WORK)))[0] == FailureClass.CANCELLED


def beside(other: Callable[[], None], main: Callable[[], RunningAttempt]) -> RunningAttempt:
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(other)
        attempt = main()
        done.result()
    return attempt


def test_a_step_of_the_clock_moves_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    limits = limits_of(
        WORK._replace(walltime=60.0, timeout=60.0, checkpoint=True), now, BlockHere("1-0", now + 100)
    )
    attempt = RunningAttempt(WORK._replace(walltime=60.0), request(0), str(tmp_path), limits)
    context = Context(tmp_path, deadline=limits.deadline, interrupt_at=limits.interrupt)
    for step in (600, -600):
        monkeypatch.setattr(time, "time", lambda step=step: now + step)
        assert not attempt.interrupted
        assert not context.interrupted
        assert context.time_left == pytest.approx(60.0, abs=10.0)
        assert _out_of_time(attempt, 1.0) is None
        verdict = _out_of_time(attempt, 61.0)
        assert verdict is not None
        assert "its walltime" in verdict.message


def test_a_process_is_measured_with_its_descendants() -> None:
    text = "import subprocess, sys; x = bytearray(60 * 2**20); print(flush=True); input()"
    outer = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {text!r}], stdin=sys.stdin); p.wait()"
    words = [sys.executable, "-c", outer]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 60 * 2**20 < memory_of(process.pid, 50 * 2**20) < 150 * 2**20
        assert memory_of(process.pid, 200 * 2**20) < 200 * 2**20
        process.communicate(b"\n")
    assert memory_of(process.pid, 1) == 0


def test_pages_that_processes_share_count_once() -> None:
    data = bytearray(80 * 2**20)
    alone = memory_of(os.getpid(), 1)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
    try:
        used = memory_of(os.getpid(), 1)
        assert alone / 2 < used < 2 * alone  # all of it is resident in each of the four
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert len(data) == 80 * 2**20
