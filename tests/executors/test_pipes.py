"""Worker processes at the ends of pipes: one that dies is noticed at once, and replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from diel.executors.pipes import WorkerLost
from tests.record import as_record
from tests.throwaway import wait_for
from tests.worker.bench import Bench, request, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as made:
        yield made


def test_a_worker_stays_for_the_next_bundle(bench: Bench) -> None:
    for index in range(3):
        bench.run([request(index, "true")])
    assert len(bench.records("worker")) == 1


def test_a_worker_that_dies_is_told_and_replaced(bench: Bench) -> None:
    future = bench.start([request(0, "sleep", "600")])
    wait_for(lambda: bench.records("start"))
    (record,) = bench.records("worker")
    os.kill(record["pid"], signal.SIGKILL)
    with pytest.raises(WorkerLost, match="was killed by signal 9"):
        future.result(timeout=10)
    assert bench.run([request(1, "true")]).records[0][1]["event"] == "done"
    assert len(bench.records("worker")) == 2


def test_a_worker_that_dies_between_bundles_is_replaced_unseen(bench: Bench) -> None:
    bench.run([request(0, "true")])
    pid = bench.records("worker")[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid))
    assert bench.run([request(1, "true")]).records[0][1]["event"] == "done"


def test_a_forked_child_that_holds_the_pipe_hides_no_death(bench: Bench) -> None:
    module = bench.module(
        "def made() -> dict:\n    import os, time\n"
        "    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(9)"
    )
    with pytest.raises(WorkerLost, match="ended with exit code 9"):
        bench.start([request(0)], module=module).result(timeout=10)


def test_a_large_report_arrives_whole(bench: Bench) -> None:
    module = bench.module("def made() -> dict:\n    return {'x': 'x' * 900_000}")
    report = bench.run([request(n) for n in range(12)], module=module)
    assert [len(as_record(record)["values"]["x"]) for _, record in report.records] == [900_000] * 12
