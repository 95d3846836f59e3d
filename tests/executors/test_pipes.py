"""Worker processes at the ends of pipes, and the server that they are forked from: who ends with whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from diel.base.errors import WorkerLost
from tests.descendants import Living, alive
from tests.record import as_record
from tests.throwaway import Project, wait_for
from tests.worker.bench import Bench, request, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as made:
        yield made


def test_a_worker_that_dies_is_told_and_replaced(bench: Bench) -> None:
    future = bench.start([request(0, "sleep", "600")])
    wait_for(lambda: bench.records("start"))
    (record,) = bench.records("worker")
    os.kill(record["pid"], signal.SIGKILL)
    with pytest.raises(WorkerLost, match="was killed by signal 9") as lost:
        future.result(timeout=60)
    assert lost.value.killed
    assert bench.run([request(1, "true")]).records[0][1]["event"] == "done"
    assert len(bench.records("worker")) == 2


def test_a_forked_child_that_holds_the_pipe_hides_no_death(bench: Bench) -> None:
    module = bench.module(
        "def made() -> dict:\n    import os, time\n"
        "    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(9)"
    )
    with pytest.raises(WorkerLost, match="ended with exit code 9") as lost:
        bench.start([request(0)], module=module).result(timeout=60)
    assert not lost.value.killed


def test_a_large_report_arrives_whole(bench: Bench) -> None:
    module = bench.module("def made() -> dict:\n    return {'x': 'x' * 900_000}")
    report = bench.run([request(n) for n in range(12)], module=module)
    assert [len(as_record(record)["values"]["x"]) for _, record in report.records] == [900_000] * 12


def server_of(bench: Bench) -> psutil.Process:
    """The parent of the worker that began last."""
    parent = psutil.Process(bench.records("worker")[-1]["pid"]).parent()
    assert parent is not None
    assert parent.pid != os.getpid()
    return parent


def test_a_server_that_dies_takes_its_workers_along_and_is_started_anew(bench: Bench) -> None:
    future = bench.start([request(0, "sleep", "600")])
    wait_for(lambda: bench.records("start"))
    worker = psutil.Process(bench.records("worker")[0]["pid"])
    server_of(bench).kill()
    with pytest.raises(WorkerLost, match=f"{worker.pid} ended with its server"):
        future.result(timeout=60)
    assert not alive(worker)
    assert bench.run([request(1, "true")]).records[0][1]["event"] == "done"
    assert "was killed by signal 9; it is started again" in bench.pipes.news.get_nowait()


def test_a_module_that_closes_all_its_files_is_ended_before_its_task_counts_as_lost(bench: Bench) -> None:
    module = bench.module(
        "def made() -> dict:\n    import os, time\n    os.closerange(3, 200)\n    time.sleep(600)"
    )
    with pytest.raises(WorkerLost):
        bench.start([request(0)], module=module).result(timeout=60)
    assert not psutil.pid_exists(bench.records("worker")[0]["pid"])


SLOW = """
    axes: {i: {range: 3}}
    stages:
      wait: {over: [i], command: "touch begun; while [ ! -e GO ]; do sleep 0.02; done"}
"""


@pytest.fixture
def running(tmp_path: Path, living: Living) -> Iterator[tuple[Project, subprocess.Popen[str]]]:
    """A run with two tasks under way, on two of three workers."""
    project = Project(tmp_path).workflow(SLOW.replace("GO", str(tmp_path / "go"))).machine("two", 2)
    process = project.start("run", "flow.yaml", "--site", "two")
    wait_for(lambda: len(list(tmp_path.glob("runs/*/tasks/wait/*/begun"))) == 2)
    yield project, process
    process.kill()
    process.communicate()


def test_a_task_whose_controller_dies_is_committed_and_nothing_is_left(
    running: tuple[Project, subprocess.Popen[str]], living: Living
) -> None:
    project, process = running
    process.kill()
    process.communicate()
    run = project.newest()
    assert run.records("done") == []
    (project.folder / "go").touch()
    wait_for(lambda: not living())
    assert len(run.records("done")) == 2
    assert run.attempts("wait", 2) == []


@pytest.mark.parametrize("victim", ["server", "workers"])
def test_what_is_killed_below_a_controller_is_started_anew(
    running: tuple[Project, subprocess.Popen[str]], living: Living, victim: str
) -> None:
    project, process = running
    run = project.newest()
    workers = [psutil.Process(record["pid"]) for record in run.records("worker")]
    for one in {worker.parent() for worker in workers} if victim == "server" else workers:
        assert one is not None
        one.kill()
    (project.folder / "go").touch()
    said = project.end(process)
    assert "3 tasks done" in said
    assert not living()
    told = [record["message"] for record in run.records("trouble")]
    assert len(told) == (victim == "server"), told


IDLE = "import sys, time\nfrom diel.backends.blocks.local import Pipes\nPipes(1, {**__import__('os').environ})\ntime.sleep(600)"


def test_nothing_outlives_a_controller_that_is_killed_as_it_starts(tmp_path: Path, living: Living) -> None:
    """At many moments: before the server has started to follow it, while that imports, and after."""
    for moment in range(20):
        process = subprocess.Popen([sys.executable, "-c", IDLE], cwd=tmp_path)
        wait_for(lambda: psutil.Process(process.pid).children())  # noqa: B023
        time.sleep(moment * 0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_for(lambda: not living())
