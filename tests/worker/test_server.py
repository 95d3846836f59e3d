"""The server that workers are forked from: they end with it, and with the controller, but not in the midst."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from diel.base.errors import WorkerLost
from tests.descendants import alive
from tests.throwaway import wait_for
from tests.worker.bench import Bench, request, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as made:
        yield made


def server(bench: Bench) -> psutil.Process:
    return psutil.Process(bench.pipes._server._process.pid)


def test_a_command_does_not_get_its_workers_line(bench: Bench) -> None:
    bench.run(
        [request(0, "sh", "-c", "for n in 3 4 5 6 7 8 9 10 11 12; do readlink /proc/$$/fd/$n; done; true")]
    )
    assert not (bench.paths.tasks / "s/0/stdout").exists()


def test_a_worker_is_forked_once_and_used_again(bench: Bench) -> None:
    for index in range(3):
        bench.run([request(index, "true")])
    assert len(bench.records("worker")) == 1
    assert len(server(bench).children()) == 1


def test_the_next_bundle_has_another_worker_where_one_died(bench: Bench) -> None:
    module = bench.module("def made() -> dict:\n    import os\n    os._exit(7)")
    with pytest.raises(WorkerLost, match="ended with exit code 7"):
        bench.run([request(0)], module=module)
    assert bench.run([request(1, "true")]).records[0][1]["event"] == "done"
    assert len(bench.records("worker")) == 2


def test_a_worker_at_a_task_commits_it_when_the_controller_is_gone_and_ends_then(bench: Bench) -> None:
    go = bench.folder / "go"
    bench.start([request(n, "sh", "-c", f"until test -e {go}; do sleep 0.02; done") for n in range(1000)])
    wait_for(lambda: bench.records("start"))
    left = server(bench)
    (worker,) = left.children()
    bench.pipes._server._requests.close()  # as the kernel does for a controller that is killed
    assert left.is_running()
    go.touch()
    wait_for(lambda: bench.records("done"))
    bench.pipes._server._process.wait(30)
    wait_for(lambda: not alive(worker))
    done = [record["index"] for record in bench.records("done")]
    assert done == [record["index"] for record in bench.records("start")]
    assert len(done) < 1000  # as many as it began before it saw that nobody is there
